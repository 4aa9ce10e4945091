"""Files that must not be read: each function writes one and returns what to pass to `operformer.read`.

Whatever would run code makes a file named `canary` in the folder.
"""

import os
import pickle
import struct
import zipfile
from functools import partial

import h5py
import numpy as np
import torch
from scipy.io import savemat

ROOM = np.arange(5 * 7 * 11, dtype=np.float32).reshape(5, 7, 11)
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


class Evil:
    """Unpickling it leaves a canary behind."""

    def __init__(self, folder):
        self.command = f"touch {folder / 'canary'}"

    def __reduce__(self):
        return os.system, (self.command,)


def made(folder, name, make):
    make(folder / name)
    return (folder / name,), {"layout": "b x y"}


def bare(folder, name, content):
    return made(folder, name, lambda path: path.write_bytes(content))


def damaged(arguments, change):
    """A good file, with its bytes changed."""
    (path, *rest), options = arguments
    path.write_bytes(change(bytearray(path.read_bytes())))
    return (path, *rest), options


def flipped(content, position):
    content[position] ^= 1
    return content


def inner(folder, make):
    (folder / "inner").mkdir()
    return made(folder, "inner", make)[0], {}


def two(dtype=torch.float32):
    return {"x": torch.ones(5, 7, 11, dtype=dtype), "y": torch.ones(5, 7, 11)}


def saved(folder, value, **options):
    return made(folder, "a.pt", lambda path: torch.save(value, path, **options))


# Files that are none of the formats.


CASES |= {
    "missing": lambda folder: ((folder / "missing.npz",), {}),
    "pipe": lambda folder: made(folder, "a.h5", os.mkfifo),
    "torch_legacy": lambda folder: saved(folder, two(), _use_new_zipfile_serialization=False),
    "empty_file": lambda folder: bare(folder, "a.npz", b""),
    "folder_without_files": lambda folder: inner(folder, lambda path: None),
    "folder_with_a_pipe": lambda folder: inner(folder, lambda path: os.mkfifo(path / "a.hdf5")),
    "text": lambda folder: bare(folder, "a.csv", b"x,y\n1,2\n"),
    "plain_pickle": lambda folder: bare(folder, "a.pkl", pickle.dumps(Evil(folder))),
}

# NumPy.


def npy(header, data=b"", version=(1, 0)):
    size = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + size + header.encode() + data


def described(shape, descr="'<f4'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


GOOD = npy(described((5, 7, 11)), ROOM.tobytes())


def npy_pair(folder, content):
    bare(folder, "u.npy", content)
    np.save(folder / "z.npy", ROOM)
    return (folder / "u.npy",), {"z": folder / "z.npy", "layout": "b x y"}


@case
def npy_of_objects(folder):
    np.save(folder / "w.npy", np.array([[Evil(folder)]], dtype=object), allow_pickle=True)
    return npy_pair(folder, (folder / "w.npy").read_bytes())


@case
def npy_with_outputs_of_another_format(folder):
    np.savez(folder / "z.npz", z=ROOM)
    return bare(folder, "u.npy", GOOD)[0], {"z": folder / "z.npz"}


NPY = {
    "truncated": lambda _: GOOD[:-4],
    "only_magic": lambda _: b"\x93NUMPY\x01\x00",
    "claims_a_petabyte": lambda _: npy(described((2**20, 2**15, 2**15)), b"\0" * 64),
    "claims_more_than_any_integer": lambda _: npy(described((2**62, 2**62, 2**62)), b"\0" * 64),
    "claims_a_number_of_a_thousand_digits": lambda _: npy(described((10**1000, 10**1000, 1))),
    "negative_shape": lambda _: npy(described((-5, -7, 11)), b"\0" * 4 * 385),
    "header_with_code": lambda folder: npy(f"__import__('os').system('touch {folder / 'canary'}')\n"),
    "header_of_four_gigabytes": lambda _: b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f4'",
    "deeply_nested_header": lambda _: npy("(" * 9000 + ")" * 9000, version=(2, 0)),
    "version_three": lambda _: npy(described((5, 7, 11)), ROOM.tobytes(), version=(3, 0)),
}
CASES |= {f"npy_{name}": lambda folder, make=make: npy_pair(folder, make(folder)) for name, make in NPY.items()}
CASES |= {
    "npy_without_outputs": lambda folder: (bare(folder, "u.npy", GOOD)[0], {}),
    "npy_with_missing_outputs": lambda folder: (bare(folder, "u.npy", GOOD)[0], {"z": folder / "z.npy"}),
}


def npz(folder, **arrays):
    return made(folder, "a.npz", lambda path: np.savez(path, **arrays))


# Arrays that make no samples; an array alone stands for u beside a good z.
NPZ = {
    "of_objects": lambda folder: np.array([[[Evil(folder)]]], dtype=object),
    "of_texts": lambda _: np.array([[["a"]]]),
    "of_records": lambda _: np.zeros((5, 7, 11), dtype=[("a", "f4"), ("b", "f4")]),
    "of_dates": lambda _: np.zeros((5, 7, 11), dtype="M8[s]"),
    "complex": lambda _: ROOM + 1j,
    "without_samples": lambda _: {"u": ROOM[:0], "z": ROOM[:0]},
    "without_points": lambda _: {"u": ROOM[:, :0], "z": ROOM[:, :0]},
    "with_one_point": lambda _: {"u": ROOM[:, :1], "z": ROOM[:, :1]},
    "with_different_counts": lambda _: ROOM[:3],
    "on_different_grids": lambda _: ROOM[:, :5],
    "without_a_pair": lambda _: {"one": ROOM, "two": ROOM},
    "with_two_pairs": lambda _: dict.fromkeys("uzxy", ROOM),
    "without_arrays": lambda _: {},
    "with_coordinates_of_another_size": lambda _: {"u": ROOM, "z": ROOM, "x": np.arange(8), "y": np.arange(11)},
    "with_coordinates_for_one_axis": lambda _: {"u": ROOM, "z": ROOM, "x": np.arange(7)},
    "with_a_coordinate_twice": lambda _: {"u": ROOM, "z": ROOM, "x": np.array([0.0, 1, 1, 2, 3, 4, 5]),
                                          "y": np.arange(11)},
    "with_a_coordinate_that_is_nan": lambda _: {"u": ROOM, "z": ROOM, "x": np.array([0.0, 1, np.nan, 2, 3, 4, 5]),
                                                "y": np.arange(11)},
}  # fmt: skip


def npz_case(make, folder):
    made = make(folder)
    return npz(folder, **(made if isinstance(made, dict) else {"u": made, "z": ROOM}))


CASES |= {f"npz_{name}": partial(npz_case, make) for name, make in NPZ.items()}


@case
def npz_of_numbers_without_axes(folder):
    (path,), _ = npz(folder, u=np.float32(1), z=np.float32(2))
    return (path, "u", "z"), {}


def archive(folder, members, how=zipfile.ZIP_STORED, name="a.npz"):
    def write(path):
        with zipfile.ZipFile(path, "w", how) as file:
            for member, content in members:
                file.writestr(member, content)

    return made(folder, name, write)


@case
def npz_member_claims_a_petabyte_in_the_directory_too(folder):
    arguments = archive(folder, [("z.npy", GOOD), ("u.npy", npy(described((2**20, 2**10))))], zipfile.ZIP_DEFLATED)

    def claim(content):
        entry = content.rindex(b"PK\x01\x02")
        content[entry + 24 : entry + 28] = struct.pack("<I", 2**32 - 2)
        return content

    return damaged(arguments, claim)


@case
def npz_encrypted(folder):
    def encrypt(content):
        for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(signature) + at] |= 1
        return content

    return damaged(archive(folder, [("u.npy", GOOD), ("z.npy", GOOD)]), encrypt)


CASES |= {
    "npz_truncated": lambda folder: damaged(npz(folder, u=ROOM, z=ROOM), lambda content: content[:-100]),
    "npz_with_a_flipped_bit": lambda folder: damaged(npz(folder, u=ROOM, z=ROOM), lambda c: flipped(c, 500)),
    "npz_member_claims_a_petabyte": lambda folder: archive(
        folder, [("u.npy", npy(described((2**20, 2**15, 2**15)))), ("z.npy", GOOD)]
    ),
    "npz_member_that_is_no_array": lambda folder: archive(folder, [("u.npy", b"not an array"), ("z.npy", GOOD)]),
    "npz_member_that_is_a_pickle": lambda folder: archive(
        folder, [("u.npy", pickle.dumps(Evil(folder))), ("z.npy", GOOD)]
    ),
    "npz_with_names_that_escape": lambda folder: archive(
        folder, [("../../u.npy", GOOD), ("/tmp/z.npy", GOOD), ("\x1b[2J\n\r.npy", GOOD)]
    ),
    "npz_with_an_array_twice": lambda folder: archive(folder, [("u.npy", GOOD), ("z.npy", GOOD), ("u", GOOD)]),
    "npz_packed_by_lzma": lambda folder: archive(folder, [("u.npy", GOOD), ("z.npy", GOOD)], zipfile.ZIP_LZMA),
}

# torch.save.

STORAGES = (("0", ROOM.tobytes()),)


def pt(folder, pickled, storages=STORAGES, more=(), how=zipfile.ZIP_STORED):
    members = [("a/data.pkl", pickled), *((f"a/data/{key}", raw) for key, raw in storages), *more]
    return archive(folder, members, how, "a.pt")


def call(module, name, arguments=b")"):
    return b"\x80\x02c" + module.encode() + b"\n" + name.encode() + b"\n" + arguments + b"R."


def number(n):
    return b"\x8a\x08" + struct.pack("<q", n)


def several(*numbers):
    return b"(" + b"".join(map(number, numbers)) + b"t"


def name(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def storage(key="0", kind="FloatStorage", count=385):
    return b"(" + name("storage") + f"ctorch\n{kind}\n".encode() + name(key) + name("cpu") + number(count) + b"tQ"


def rebuilt(stored=None, offset=0, shape=(5, 7, 11), strides=(77, 11, 1), packed=None):
    sizes = (packed or several(*shape)) + several(*strides)
    arguments = (stored or storage()) + number(offset) + sizes + b"\x89"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"ccollections\nOrderedDict\n)RtR"


def tensors(x=None):
    return b"\x80\x02}(" + name("x") + (x or rebuilt()) + name("y") + rebuilt() + b"u."


def doubled():
    return b"\x80\x02]q\x00" + b"".join(b"](h%ch%ceq%c" % (k, k, k + 1) for k in range(100)) + b"."


def nested_key():
    """A tuple whose hash takes 2^100 steps."""
    return b"\x80\x02)q\x00" + b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(100)) + b"}h\x64Ns."


# What the pickle of an archive of torch.save says.
PICKLES = {
    "runs_a_command": lambda folder: call("os", "system", b"(" + name(f"touch {folder / 'canary'}") + b"t"),
    "runs_a_command_by_protocol_four": lambda folder: pickle.dumps({"x": Evil(folder)}, protocol=4),
    "evaluates": lambda folder: call("builtins", "eval", b"(" + name(f"open({str(folder / 'canary')!r}, 'w')") + b"t"),
    "imports": lambda _: call("this", "d"),
    "calls_what_it_made": lambda _: b"\x80\x02" + rebuilt() + b")R.",
    "calls_a_storage": lambda _: call("torch", "FloatStorage", b"(K\x01t"),
    "fills_an_ordered_dict_by_calling": lambda _: call("collections", "OrderedDict", b"(K\x01t"),
    "makes_an_object": lambda _: b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "sets_the_state_of_an_object": lambda _: b"\x80\x02ccollections\nOrderedDict\n)R}b.",
    "makes_an_instance": lambda _: b"(S'x'\nios\nsystem\n.",
    "with_an_extension": lambda _: b"\x80\x02\x82\x01.",
    "with_a_text_for_a_storage": lambda _: b"Pstorage\n.",
    "with_a_number_of_a_gigabyte": lambda _: b"\x80\x02\x8b\xff\xff\xff\x3f\x01.",
    "reaches_past_its_storage": lambda _: tensors(rebuilt(strides=(78, 11, 1))),
    "begins_past_its_storage": lambda _: tensors(rebuilt(offset=2**40)),
    "begins_before_its_storage": lambda _: tensors(rebuilt(offset=-1)),
    "steps_backwards": lambda _: tensors(rebuilt(offset=384, strides=(-77, -11, -1))),
    "of_negative_size": lambda _: tensors(rebuilt(shape=(-5, -7, 11))),
    "repeats_one_number_without_end": lambda _: tensors(rebuilt(shape=(5, 2**20, 2**20), strides=(77, 0, 0))),
    "with_more_sizes_than_strides": lambda _: tensors(rebuilt(strides=(77, 11))),
    "of_enormous_size": lambda _: tensors(rebuilt(packed=b"(" + b"\x8a\xff" + b"\x7f" * 255 + b"K\x07K\x0bt")),
    "with_a_storage_outside": lambda _: tensors(rebuilt(storage("../../../../etc/passwd"))),
    "with_a_storage_of_another_type": lambda _: tensors(rebuilt(storage(kind="UntypedStorage"))),
    "recalls_what_it_never_kept": lambda _: b"\x80\x02h\x07.",
    "takes_from_an_empty_stack": lambda _: b"\x80\x02R.",
    "without_an_end": lambda _: tensors()[:-1],
    "cut_in_a_text": lambda _: tensors()[:12],
    "with_a_pickle_of_many_megabytes": lambda _: b"\x80\x02" + b"N0" * 2**22 + b".",
    "with_as_many_opcodes_as_fit": lambda _: b"\x80\x02" + b"N" * (2**20 - 3) + b".",
    "of_lists_of_lists_of_lists": lambda _: doubled(),
    "with_nested_tuples_for_a_key": lambda _: nested_key(),
    "that_holds_itself": lambda _: b"\x80\x02]q\x00h\x00a.",
}
CASES |= {f"pt_{name}": lambda folder, make=make: pt(folder, make(folder)) for name, make in PICKLES.items()}
CASES |= {
    "pt_without_its_storage": lambda folder: pt(folder, tensors(), storages=()),
    "pt_with_a_short_storage": lambda folder: pt(folder, tensors(), storages=[("0", ROOM.tobytes()[:-4])]),
    "pt_with_packed_storages": lambda folder: pt(folder, tensors(), how=zipfile.ZIP_DEFLATED),
    "pt_with_a_packed_pickle": lambda folder: pt(folder, bytes(2**26), storages=(), how=zipfile.ZIP_DEFLATED),
    "pt_of_another_byte_order": lambda folder: pt(folder, tensors(), more=[("a/byteorder", b"big")]),
    "pt_with_two_pickles": lambda folder: pt(folder, tensors(), more=[("b/data.pkl", tensors())]),
}


CASES |= {
    "pt_of_a_module": lambda folder: saved(folder, torch.nn.Linear(2, 3)),
    "pt_of_numpy": lambda folder: saved(folder, {"x": ROOM, "y": ROOM}),
    "pt_complex": lambda folder: saved(folder, two(torch.complex64)),
    "pt_of_a_text": lambda folder: saved(folder, "tensors"),
    "pt_truncated": lambda folder: damaged(saved(folder, two()), lambda content: content[:-200]),
    "pt_with_a_flipped_bit": lambda folder: damaged(
        saved(folder, two()), lambda c: flipped(c, c.index(np.ones(30, np.float32).tobytes()) + 40)
    ),
}

# HDF5.


def hdf5(folder, write, name="a.h5"):
    with h5py.File(folder / name, "w") as file:
        write(file)
    return (folder / name,), {"layout": "b x y"}


def elsewhere(folder):
    """The values of u in another file."""
    hdf5(folder, lambda file: file.create_dataset("u", data=ROOM), "other.h5")
    return str(folder / "other.h5")


def link_through_another(folder, file):
    file["out"] = h5py.ExternalLink(elsewhere(folder), "/")
    file["u"] = h5py.SoftLink("/out/u")


def virtual(folder, file):
    layout = h5py.VirtualLayout((5, 7, 11), np.float32)
    layout[:] = h5py.VirtualSource(elsewhere(folder), "u", (5, 7, 11))
    file.create_virtual_dataset("u", layout)


def external_storage(folder, file):
    (folder / "raw").write_bytes(ROOM.tobytes())
    file.create_dataset("u", (5, 7, 11), np.float32, external=[(str(folder / "raw"), 0, ROOM.nbytes)])


def written_in_part(_, file):
    file.create_dataset("u", (5, 7, 11), np.float32, chunks=(1, 7, 11))[:4] = ROOM[:4]


def group_that_holds_itself(_, file):
    file.create_group("one/two")
    file["one/two/three"] = file["one"]


def of_matlab(kind, values, _, file):
    file["u"] = values
    file["u"].attrs["MATLAB_class"] = np.bytes_(kind)


def dataset(*arguments, **options):
    return lambda _, file: file.create_dataset("u", *arguments, **options)


# What stands in an HDF5 file in place of u, beside a good z.
HDF5 = {
    "hdf5_external_link": lambda folder, f: f.__setitem__("u", h5py.ExternalLink(elsewhere(folder), "/u")),
    "hdf5_soft_link_through_an_external_one": link_through_another,
    "hdf5_dangling_link": lambda _, file: file.__setitem__("u", h5py.SoftLink("/nowhere")),
    "hdf5_virtual": virtual,
    "hdf5_external_storage": external_storage,
    "hdf5_never_written": dataset((5, 7, 11), np.float32),
    "hdf5_written_in_part": written_in_part,
    "hdf5_claims_a_petabyte": dataset((2**20, 2**15, 2**15), np.float32, chunks=(1, 2**10, 2**10)),
    "hdf5_of_texts": dataset(data=[[["a"]]]),
    "hdf5_of_rows_of_any_length": dataset((5, 7, 11), h5py.vlen_dtype(np.float32)),
    "hdf5_of_references": dataset((5, 7, 11), h5py.ref_dtype),
    "hdf5_complex": dataset(data=ROOM + 1j),
    "hdf5_without_a_space": dataset(data=h5py.Empty("f4")),
    "hdf5_group_for_an_array": lambda _, file: file.create_group("u"),
    "hdf5_group_that_holds_itself": group_that_holds_itself,
    "matlab_cell": partial(of_matlab, "cell", ROOM),
    "matlab_text": partial(of_matlab, "char", ROOM.astype(np.uint16)),
}


def with_z(write, folder):
    def both(file):
        write(folder, file)
        file["z"] = ROOM

    return hdf5(folder, both)


CASES |= {name: partial(with_z, write) for name, write in HDF5.items()}
CASES |= {
    "hdf5_empty": lambda folder: hdf5(folder, lambda file: None),
    "hdf5_truncated": lambda folder: damaged(with_z(dataset(data=ROOM), folder), lambda content: content[:-1000]),
    "hdf5_only_magic": lambda folder: bare(folder, "a.h5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 100),
}


@case
def hdf5_corrupt_chunk(folder):
    data = np.random.default_rng(0).normal(size=(5, 7, 11))
    arguments = with_z(dataset(data=data, compression="gzip"), folder)
    with h5py.File(folder / "a.h5") as file:
        place = file["u"].id.get_chunk_info(0).byte_offset
    return damaged(arguments, lambda content: content[: place + 40] + b"\xff" * 20 + content[place + 60 :])


# PDEBench and The Well.


def pdebench(write):
    return lambda folder: (hdf5(folder, write)[0], {})


def groups(sizes, shifts):
    def write(file):
        for k, (n, shift) in enumerate(zip(sizes, shifts, strict=True)):
            file[f"{k:04}/data"] = np.ones((3, n, 2), np.float32)
            file[f"{k:04}/grid/x"] = np.arange(n) + shift

    return write


def group_that_is_a_link(file):
    groups((7,), (0,))(file)
    file["0001/data"] = h5py.SoftLink("/0000/data")


CASES |= {
    "pdebench_samples_of_different_shapes": pdebench(groups((7, 11), (0, 0))),
    "pdebench_samples_on_different_grids": pdebench(groups((7, 7), (0, 1))),
    "pdebench_sample_that_is_a_link": pdebench(group_that_is_a_link),
    "pdebench_with_other_coordinates": pdebench(lambda f: f.update({"tensor": ROOM, "x-coordinate": np.arange(12)})),
}


def well(change, folder):
    def write(file):
        dimensions = file.create_group("dimensions")
        dimensions.attrs["spatial_dims"] = ["x"]
        dimensions["x"] = np.arange(11)
        for k in range(3):
            file.create_group(f"t{k}_fields").attrs["field_names"] = ["density"] if k == 0 else []
        file["t0_fields/density"] = ROOM
        flags = {"dim_varying": [True], "sample_varying": True, "time_varying": True}
        file["t0_fields/density"].attrs.update(flags)
        change(folder, file)

    return hdf5(folder, write)[0], {}


def grid_for_each_sample(_, file):
    del file["dimensions/x"]
    file["dimensions/x"] = np.arange(55.0).reshape(5, 11)


def without_time(_, file):
    del file["t0_fields/density"]
    file["t0_fields/density"] = ROOM[:, 0]
    file["t0_fields/density"].attrs.update({"sample_varying": True, "time_varying": False, "dim_varying": [True]})


def conditions_elsewhere(folder, file):
    with h5py.File(folder / "other.h5", "w") as other:
        other.create_group("x").attrs.update({"bc_type": "PERIODIC", "associated_dims": "x"})
    file["boundary_conditions"] = h5py.ExternalLink("other.h5", "/")


def fields_elsewhere(folder, file):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = ROOM[..., None]
        other.attrs["field_names"] = ["secret"]
    del file["t1_fields"]
    file["t1_fields"] = h5py.ExternalLink("other.h5", "/")


WELL = {
    "without_its_coordinates": lambda _, file: file.__delitem__("dimensions/x"),
    "without_its_field": lambda _, file: file.__delitem__("t0_fields/density"),
    "with_a_field_outside": lambda _, f: f["t0_fields"].attrs.__setitem__("field_names", ["../../../etc/passwd"]),
    "with_another_number_of_axes": lambda _, f: f["t0_fields/density"].attrs.__setitem__("time_varying", False),
    "with_a_grid_for_each_sample": grid_for_each_sample,
    "without_time": without_time,
    "with_boundary_conditions_elsewhere": conditions_elsewhere,
    "with_fields_elsewhere": fields_elsewhere,
    "of_four_dimensions": lambda _, f: f["dimensions"].attrs.__setitem__("spatial_dims", ["x", "y", "z", "w"]),
}
CASES |= {f"well_{name}": partial(well, change) for name, change in WELL.items()}


@case
def folder_of_different_grids(folder):
    def write(path):
        for n in (7, 11):
            hdf5(path, lambda file, n=n: file.update({"u": ROOM[:, 0, :n], "z": ROOM[:, 0, :n]}), f"{n}.hdf5")

    return inner(folder, write)


# MATLAB before 7.3.


def mat(folder, u=ROOM, packed=True):
    return made(folder, "a.mat", lambda path: savemat(path, {"u": u, "z": ROOM}, do_compression=packed))


@case
def mat_cell(folder):
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = ROOM, ROOM
    return mat(folder, cell)


@case
def mat_claims_a_petabyte(folder):
    shape, claimed = struct.pack("<iii", 5, 7, 11), struct.pack("<iii", 2**20, 2**20, 2**10)
    return damaged(mat(folder, packed=False), lambda content: content.replace(shape, claimed, 1))


CASES |= {
    "mat_struct": lambda folder: mat(folder, {"inner": ROOM}),
    "mat_text": lambda folder: mat(folder, "text"),
    "mat_complex": lambda folder: mat(folder, ROOM + 1j),
    "mat_empty": lambda folder: mat(folder, np.zeros((0, 0))),
    "mat_truncated": lambda folder: damaged(mat(folder), lambda content: content[:-50]),
    "mat_corrupt": lambda folder: damaged(mat(folder), lambda c: c[:160] + b"\xff" * 40 + c[200:]),
    "mat_only_its_header": lambda folder: bare(folder, "a.mat", b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"),
}
