"""Files that must not be read: each function writes one and returns what to pass to `operformer.read`.

Whatever would run code makes a file named `canary` in the folder.
"""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import torch
from scipy.io import savemat

CASES = {}
ROOM = np.arange(5 * 7 * 11, dtype=np.float32).reshape(5, 7, 11)


def case(make):
    CASES[make.__name__] = make
    return make


class Evil:
    """Unpickling it leaves a canary behind."""

    def __init__(self, folder):
        self.command = f"touch {folder / 'canary'}"

    def __reduce__(self):
        return os.system, (self.command,)


def bare(path, content):
    path.write_bytes(content)
    return (path,), {"layout": "b x y"}


# Files that are none of the formats.


@case
def missing(folder):
    return (folder / "missing.npz",), {}


@case
def empty_file(folder):
    return bare(folder / "a.npz", b"")


@case
def folder_without_files(folder):
    (folder / "inner").mkdir()
    return (folder / "inner",), {}


@case
def pipe(folder):
    os.mkfifo(folder / "a.h5")
    return (folder / "a.h5",), {}


@case
def folder_with_a_pipe(folder):
    (folder / "inner").mkdir()
    os.mkfifo(folder / "inner" / "a.hdf5")
    return (folder / "inner",), {}


@case
def text(folder):
    return bare(folder / "a.csv", b"x,y\n1,2\n")


@case
def plain_pickle(folder):
    return bare(folder / "a.pkl", pickle.dumps(Evil(folder)))


@case
def torch_legacy(folder):
    torch.save({"x": torch.ones(5, 7), "y": torch.ones(5, 7)}, folder / "a.pt", _use_new_zipfile_serialization=False)
    return (folder / "a.pt",), {}


# NumPy.


def npy(header, data=b"", version=(1, 0)):
    text = header if isinstance(header, bytes) else header.encode()
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def described(shape, descr="'<f4'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def npy_pair(folder, content):
    (folder / "u.npy").write_bytes(content)
    np.save(folder / "z.npy", ROOM)
    return (folder / "u.npy",), {"z": folder / "z.npy", "layout": "b x y"}


@case
def npy_of_objects(folder):
    with io.BytesIO() as file:
        np.save(file, np.array([[Evil(folder)]], dtype=object), allow_pickle=True)
        return npy_pair(folder, file.getvalue())


@case
def npy_truncated(folder):
    np.save(folder / "w.npy", ROOM)
    return npy_pair(folder, (folder / "w.npy").read_bytes()[:-4])


@case
def npy_only_magic(folder):
    return npy_pair(folder, b"\x93NUMPY\x01\x00")


@case
def npy_claims_a_petabyte(folder):
    return npy_pair(folder, npy(described((2**20, 2**15, 2**15)), b"\0" * 64))


@case
def npy_claims_more_than_any_integer(folder):
    return npy_pair(folder, npy(described((2**62, 2**62, 2**62)), b"\0" * 64))


@case
def npy_claims_a_number_of_a_thousand_digits(folder):
    return npy_pair(folder, npy(described((10**1000, 10**1000, 1))))


@case
def npy_negative_shape(folder):
    return npy_pair(folder, npy(described((-5, -7, 11)), b"\0" * 4 * 385))


@case
def npy_header_with_code(folder):
    return npy_pair(folder, npy(f"__import__('os').system('touch {folder / 'canary'}')\n"))


@case
def npy_header_of_four_gigabytes(folder):
    return npy_pair(folder, b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f4'")


@case
def npy_deeply_nested_header(folder):
    return npy_pair(folder, npy("(" * 9000 + ")" * 9000, version=(2, 0)))


@case
def npy_version_three(folder):
    return npy_pair(folder, npy(described((5, 7, 11)), ROOM.tobytes(), version=(3, 0)))


@case
def npy_without_outputs(folder):
    np.save(folder / "u.npy", ROOM)
    return (folder / "u.npy",), {}


@case
def npy_with_missing_outputs(folder):
    np.save(folder / "u.npy", ROOM)
    return (folder / "u.npy",), {"z": folder / "z.npy"}


@case
def npy_with_outputs_of_another_format(folder):
    np.save(folder / "u.npy", ROOM)
    np.savez(folder / "z.npz", z=ROOM)
    return (folder / "u.npy",), {"z": folder / "z.npz"}


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return (folder / "a.npz",), {"layout": "b x y"}


@case
def npz_of_objects(folder):
    return npz(folder, u=np.array([[[Evil(folder)]]], dtype=object), z=ROOM)


@case
def npz_of_texts(folder):
    return npz(folder, u=np.array([[["a"]]]), z=ROOM)


@case
def npz_of_records(folder):
    return npz(folder, u=np.zeros((5, 7, 11), dtype=[("a", "f4"), ("b", "f4")]), z=ROOM)


@case
def npz_of_dates(folder):
    return npz(folder, u=np.zeros((5, 7, 11), dtype="M8[s]"), z=ROOM)


@case
def npz_complex(folder):
    return npz(folder, u=ROOM + 1j, z=ROOM)


@case
def npz_without_samples(folder):
    return npz(folder, u=ROOM[:0], z=ROOM[:0])


@case
def npz_without_points(folder):
    return npz(folder, u=ROOM[:, :0], z=ROOM[:, :0])


@case
def npz_with_one_point(folder):
    return npz(folder, u=ROOM[:, :1], z=ROOM[:, :1])


@case
def npz_of_numbers_without_axes(folder):
    np.savez(folder / "a.npz", u=np.float32(1), z=np.float32(2))
    return (folder / "a.npz", "u", "z"), {}


@case
def npz_with_different_counts(folder):
    return npz(folder, u=ROOM, z=ROOM[:3])


@case
def npz_on_different_grids(folder):
    return npz(folder, u=ROOM, z=ROOM[:, :5])


@case
def npz_without_a_pair(folder):
    return npz(folder, one=ROOM, two=ROOM)


@case
def npz_with_two_pairs(folder):
    return npz(folder, u=ROOM, z=ROOM, x=ROOM, y=ROOM)


@case
def npz_without_arrays(folder):
    return npz(folder)


@case
def npz_with_coordinates_of_another_size(folder):
    return npz(folder, u=ROOM, z=ROOM, x=np.arange(8), y=np.arange(11))


@case
def npz_with_coordinates_for_one_axis(folder):
    return npz(folder, u=ROOM, z=ROOM, x=np.arange(7))


@case
def npz_with_a_coordinate_twice(folder):
    return npz(folder, u=ROOM, z=ROOM, x=np.array([0.0, 1, 1, 2, 3, 4, 5]), y=np.arange(11))


@case
def npz_with_a_coordinate_that_is_nan(folder):
    return npz(folder, u=ROOM, z=ROOM, x=np.array([0.0, 1, np.nan, 2, 3, 4, 5]), y=np.arange(11))


@case
def npz_truncated(folder):
    arguments = npz(folder, u=ROOM, z=ROOM)
    (folder / "a.npz").write_bytes((folder / "a.npz").read_bytes()[:-100])
    return arguments


@case
def npz_with_a_flipped_bit(folder):
    arguments = npz(folder, u=ROOM, z=ROOM)
    content = bytearray((folder / "a.npz").read_bytes())
    content[500] ^= 1
    (folder / "a.npz").write_bytes(content)
    return arguments


def archive(folder, members, how=zipfile.ZIP_STORED, name="a.npz"):
    with zipfile.ZipFile(folder / name, "w", how) as file:
        for member, content in members:
            file.writestr(member, content)
    return (folder / name,), {"layout": "b x y"}


GOOD = npy(described((5, 7, 11)), ROOM.tobytes())


@case
def npz_member_claims_a_petabyte(folder):
    return archive(folder, [("u.npy", npy(described((2**20, 2**15, 2**15)))), ("z.npy", GOOD)])


@case
def npz_member_claims_a_petabyte_in_the_directory_too(folder):
    arguments = archive(folder, [("z.npy", GOOD), ("u.npy", npy(described((2**20, 2**10))))], zipfile.ZIP_DEFLATED)
    content = bytearray((folder / "a.npz").read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 2**32 - 2)
    (folder / "a.npz").write_bytes(content)
    return arguments


@case
def npz_member_that_is_no_array(folder):
    return archive(folder, [("u.npy", b"not an array"), ("z.npy", GOOD)])


@case
def npz_member_that_is_a_pickle(folder):
    return archive(folder, [("u.npy", pickle.dumps(Evil(folder))), ("z.npy", GOOD)])


@case
def npz_with_names_that_escape(folder):
    return archive(folder, [("../../u.npy", GOOD), ("/tmp/z.npy", GOOD), ("\x1b[2J\n\r.npy", GOOD)])


@case
def npz_with_an_array_twice(folder):
    return archive(folder, [("u.npy", GOOD), ("z.npy", GOOD), ("u", GOOD)])


@case
def npz_packed_by_lzma(folder):
    return archive(folder, [("u.npy", GOOD), ("z.npy", GOOD)], zipfile.ZIP_LZMA)


@case
def npz_encrypted(folder):
    arguments = archive(folder, [("u.npy", GOOD), ("z.npy", GOOD)])
    content = bytearray((folder / "a.npz").read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + at] |= 1
    (folder / "a.npz").write_bytes(content)
    return arguments


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


def rebuilt(stored=None, offset=0, shape=(5, 7, 11), strides=(77, 11, 1)):
    arguments = (stored or storage()) + number(offset) + several(*shape) + several(*strides) + b"\x89"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"ccollections\nOrderedDict\n)RtR"


def tensors(x=None, y=None):
    return b"\x80\x02}(" + name("x") + (x or rebuilt()) + name("y") + (y or rebuilt()) + b"u."


@case
def pt_runs_a_command(folder):
    return pt(folder, call("os", "system", b"(" + name(f"touch {folder / 'canary'}") + b"t"))


@case
def pt_runs_a_command_by_protocol_four(folder):
    return pt(folder, pickle.dumps({"x": Evil(folder)}, protocol=4))


@case
def pt_evaluates(folder):
    return pt(folder, call("builtins", "eval", b"(" + name(f"open({str(folder / 'canary')!r}, 'w')") + b"t"))


@case
def pt_imports(folder):
    return pt(folder, call("this", "d"))


@case
def pt_calls_what_it_made(folder):
    return pt(folder, b"\x80\x02" + rebuilt() + b")R.")


@case
def pt_calls_a_storage(folder):
    return pt(folder, call("torch", "FloatStorage", b"(K\x01t"))


@case
def pt_fills_an_ordered_dict_by_calling(folder):
    return pt(folder, call("collections", "OrderedDict", b"(K\x01t"))


@case
def pt_makes_an_object(folder):
    return pt(folder, b"\x80\x02ccollections\nOrderedDict\n)\x81.")


@case
def pt_sets_the_state_of_an_object(folder):
    return pt(folder, b"\x80\x02ccollections\nOrderedDict\n)R}b.")


@case
def pt_makes_an_instance(folder):
    return pt(folder, b"(S'x'\nios\nsystem\n.")


@case
def pt_with_an_extension(folder):
    return pt(folder, b"\x80\x02\x82\x01.")


@case
def pt_with_a_text_for_a_storage(folder):
    return pt(folder, b"Pstorage\n.")


@case
def pt_with_a_number_of_a_gigabyte(folder):
    return pt(folder, b"\x80\x02\x8b\xff\xff\xff\x3f\x01.")


@case
def pt_of_a_module(folder):
    torch.save(torch.nn.Linear(2, 3), folder / "a.pt")
    return (folder / "a.pt",), {}


@case
def pt_of_numpy(folder):
    torch.save({"x": ROOM, "y": ROOM}, folder / "a.pt")
    return (folder / "a.pt",), {}


@case
def pt_complex(folder):
    torch.save({"x": torch.ones(5, 7, dtype=torch.complex64), "y": torch.ones(5, 7)}, folder / "a.pt")
    return (folder / "a.pt",), {}


@case
def pt_of_a_text(folder):
    torch.save("tensors", folder / "a.pt")
    return (folder / "a.pt",), {}


@case
def pt_reaches_past_its_storage(folder):
    return pt(folder, tensors(rebuilt(strides=(78, 11, 1))))


@case
def pt_begins_past_its_storage(folder):
    return pt(folder, tensors(rebuilt(offset=2**40)))


@case
def pt_begins_before_its_storage(folder):
    return pt(folder, tensors(rebuilt(offset=-1)))


@case
def pt_steps_backwards(folder):
    return pt(folder, tensors(rebuilt(offset=384, strides=(-77, -11, -1))))


@case
def pt_of_negative_size(folder):
    return pt(folder, tensors(rebuilt(shape=(-5, -7, 11))))


@case
def pt_repeats_one_number_without_end(folder):
    return pt(folder, tensors(rebuilt(shape=(5, 2**20, 2**20), strides=(77, 0, 0))))


@case
def pt_with_more_sizes_than_strides(folder):
    return pt(folder, tensors(rebuilt(strides=(77, 11))))


@case
def pt_without_its_storage(folder):
    return pt(folder, tensors(), storages=())


@case
def pt_with_a_storage_outside(folder):
    return pt(folder, tensors(rebuilt(storage("../../../../etc/passwd"))))


@case
def pt_with_a_short_storage(folder):
    return pt(folder, tensors(), storages=[("0", ROOM.tobytes()[:-4])])


@case
def pt_with_a_storage_of_another_type(folder):
    return pt(folder, tensors(rebuilt(storage(kind="UntypedStorage"))))


@case
def pt_with_packed_storages(folder):
    return pt(folder, tensors(), how=zipfile.ZIP_DEFLATED)


@case
def pt_with_a_packed_pickle(folder):
    with zipfile.ZipFile(folder / "a.pt", "w", zipfile.ZIP_DEFLATED) as file, file.open("a/data.pkl", "w") as member:
        for _ in range(64):
            member.write(b"\0" * 2**20)
    return (folder / "a.pt",), {}


@case
def pt_of_another_byte_order(folder):
    return pt(folder, tensors(), more=[("a/byteorder", b"big")])


@case
def pt_with_two_pickles(folder):
    return pt(folder, tensors(), more=[("b/data.pkl", tensors())])


@case
def pt_recalls_what_it_never_kept(folder):
    return pt(folder, b"\x80\x02h\x07.")


@case
def pt_takes_from_an_empty_stack(folder):
    return pt(folder, b"\x80\x02R.")


@case
def pt_without_an_end(folder):
    return pt(folder, tensors()[:-1])


@case
def pt_cut_in_a_text(folder):
    return pt(folder, tensors()[:12])


@case
def pt_with_a_pickle_of_many_megabytes(folder):
    return pt(folder, b"\x80\x02" + b"N0" * 2**22 + b".")


@case
def pt_with_as_many_opcodes_as_fit(folder):
    return pt(folder, b"\x80\x02" + b"N" * (2**20 - 3) + b".")


@case
def pt_of_enormous_size(folder):
    enormous = b"(" + b"\x8a\xff" + b"\x7f" * 255 + b"K\x07K\x0bt"
    arguments = storage() + number(0) + enormous + several(77, 11, 1) + b"\x89"
    return pt(folder, tensors(b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"ccollections\nOrderedDict\n)RtR"))


@case
def pt_of_lists_of_lists_of_lists(folder):
    doubled = b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (k, k, k + 1) for k in range(100))
    return pt(folder, b"\x80\x02" + doubled + b".")


@case
def pt_that_holds_itself(folder):
    return pt(folder, b"\x80\x02]q\x00h\x00a.")


@case
def pt_truncated(folder):
    torch.save({"x": torch.ones(5, 7, 11), "y": torch.ones(5, 7, 11)}, folder / "a.pt")
    return bare(folder / "a.pt", (folder / "a.pt").read_bytes()[:-200])


@case
def pt_with_a_flipped_bit(folder):
    torch.save({"x": torch.ones(5, 7, 11), "y": torch.ones(5, 7, 11)}, folder / "a.pt")
    content = bytearray((folder / "a.pt").read_bytes())
    content[content.index(np.ones(30, np.float32).tobytes()) + 40] ^= 1
    return bare(folder / "a.pt", bytes(content))


# HDF5.


def hdf5(folder, write):
    with h5py.File(folder / "a.h5", "w") as file:
        write(file)
    return (folder / "a.h5",), {"layout": "b x y"}


def with_z(write):
    def both(file):
        write(file)
        file["z"] = ROOM

    return both


@case
def hdf5_external_link(folder):
    hdf5(folder, lambda file: file.create_dataset("u", data=ROOM))
    (folder / "a.h5").rename(folder / "other.h5")
    return hdf5(folder, with_z(lambda file: file.__setitem__("u", h5py.ExternalLink("other.h5", "/u"))))


@case
def hdf5_soft_link_through_an_external_one(folder):
    def write(file):
        file["out"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
        file["u"] = h5py.SoftLink("/out/u")

    hdf5(folder, lambda file: file.create_dataset("u", data=ROOM))
    (folder / "a.h5").rename(folder / "other.h5")
    return hdf5(folder, with_z(write))


@case
def hdf5_dangling_link(folder):
    return hdf5(folder, with_z(lambda file: file.__setitem__("u", h5py.SoftLink("/nowhere"))))


@case
def hdf5_virtual(folder):
    def write(file):
        layout = h5py.VirtualLayout((5, 7, 11), np.float32)
        layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "u", (5, 7, 11))
        file.create_virtual_dataset("u", layout)

    hdf5(folder, lambda file: file.create_dataset("u", data=ROOM))
    (folder / "a.h5").rename(folder / "other.h5")
    return hdf5(folder, with_z(write))


@case
def hdf5_external_storage(folder):
    (folder / "raw").write_bytes(ROOM.tobytes())
    external = [(str(folder / "raw"), 0, ROOM.nbytes)]
    return hdf5(folder, with_z(lambda f: f.create_dataset("u", (5, 7, 11), np.float32, external=external)))


@case
def hdf5_never_written(folder):
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", (5, 7, 11), np.float32)))


@case
def hdf5_written_in_part(folder):
    def write(file):
        file.create_dataset("u", (5, 7, 11), np.float32, chunks=(1, 7, 11))[:4] = ROOM[:4]

    return hdf5(folder, with_z(write))


@case
def hdf5_claims_a_petabyte(folder):
    shape, chunks = (2**20, 2**15, 2**15), (1, 2**10, 2**10)
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", shape, np.float32, chunks=chunks)))


@case
def hdf5_of_texts(folder):
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", data=[[["a"]]])))


@case
def hdf5_of_rows_of_any_length(folder):
    kind = h5py.vlen_dtype(np.float32)
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", (5, 7, 11), kind)))


@case
def hdf5_of_references(folder):
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", (5, 7, 11), h5py.ref_dtype)))


@case
def hdf5_complex(folder):
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", data=ROOM + 1j)))


@case
def hdf5_without_a_space(folder):
    return hdf5(folder, with_z(lambda file: file.create_dataset("u", data=h5py.Empty("f4"))))


@case
def hdf5_group_for_an_array(folder):
    return hdf5(folder, with_z(lambda file: file.create_group("u")))


@case
def hdf5_group_that_holds_itself(folder):
    def write(file):
        file.create_group("one/two")
        file["one/two/three"] = file["one"]

    return hdf5(folder, with_z(write))


@case
def hdf5_empty(folder):
    return hdf5(folder, lambda file: None)


@case
def hdf5_truncated(folder):
    arguments = hdf5(folder, with_z(lambda file: file.create_dataset("u", data=ROOM)))
    (folder / "a.h5").write_bytes((folder / "a.h5").read_bytes()[:-1000])
    return arguments


@case
def hdf5_only_magic(folder):
    return bare(folder / "a.h5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 100)


@case
def hdf5_corrupt_chunk(folder):
    data = np.random.default_rng(0).normal(size=(5, 7, 11))
    arguments = hdf5(folder, with_z(lambda file: file.create_dataset("u", data=data, compression="gzip")))
    with h5py.File(folder / "a.h5") as file:
        place = file["u"].id.get_chunk_info(0)
    content = bytearray((folder / "a.h5").read_bytes())
    content[place.byte_offset + 40 : place.byte_offset + 60] = b"\xff" * 20
    (folder / "a.h5").write_bytes(content)
    return arguments


@case
def matlab_cell(folder):
    def write(file):
        file["u"] = ROOM
        file["u"].attrs["MATLAB_class"] = np.bytes_("cell")

    return hdf5(folder, with_z(write))


@case
def matlab_text(folder):
    def write(file):
        file["u"] = ROOM.astype(np.uint16)
        file["u"].attrs["MATLAB_class"] = np.bytes_("char")

    return hdf5(folder, with_z(write))


# PDEBench and The Well.


@case
def pdebench_samples_of_different_shapes(folder):
    def write(file):
        for k, n in enumerate((7, 11)):
            file[f"{k:04}/data"] = np.ones((3, n, 2), np.float32)
            file[f"{k:04}/grid/x"] = np.arange(n)

    return (hdf5(folder, write)[0]), {}


@case
def pdebench_samples_on_different_grids(folder):
    def write(file):
        for k in range(2):
            file[f"{k:04}/data"] = np.ones((3, 7, 2), np.float32)
            file[f"{k:04}/grid/x"] = np.arange(7) + k

    return (hdf5(folder, write)[0]), {}


@case
def pdebench_sample_that_is_a_link(folder):
    def write(file):
        file["0000/data"] = np.ones((3, 7, 2), np.float32)
        file["0000/grid/x"] = np.arange(7)
        file["0001/data"] = h5py.SoftLink("/0000/data")

    return (hdf5(folder, write)[0]), {}


@case
def pdebench_with_other_coordinates(folder):
    def write(file):
        file["tensor"] = ROOM
        file["x-coordinate"] = np.arange(12)

    return (hdf5(folder, write)[0]), {}


def well(folder, change):
    def write(file):
        dimensions = file.create_group("dimensions")
        dimensions.attrs["spatial_dims"] = ["x"]
        dimensions["x"] = np.arange(11)
        for k in range(3):
            file.create_group(f"t{k}_fields").attrs["field_names"] = ["density"] if k == 0 else []
        file["t0_fields/density"] = ROOM
        flags = {"dim_varying": [True], "sample_varying": True, "time_varying": True}
        file["t0_fields/density"].attrs.update(flags)
        change(file)

    return (hdf5(folder, write)[0]), {}


@case
def well_without_its_coordinates(folder):
    return well(folder, lambda file: file.__delitem__("dimensions/x"))


@case
def well_without_its_field(folder):
    return well(folder, lambda file: file.__delitem__("t0_fields/density"))


@case
def well_with_a_field_outside(folder):
    return well(folder, lambda file: file["t0_fields"].attrs.__setitem__("field_names", ["../../../etc/passwd"]))


@case
def well_with_another_number_of_axes(folder):
    return well(folder, lambda file: file["t0_fields/density"].attrs.__setitem__("time_varying", False))


@case
def well_with_a_grid_for_each_sample(folder):
    def change(file):
        del file["dimensions/x"]
        file["dimensions/x"] = np.arange(55.0).reshape(5, 11)

    return well(folder, change)


@case
def well_without_time(folder):
    def change(file):
        del file["t0_fields/density"]
        file["t0_fields/density"] = ROOM[:, 0]
        file["t0_fields/density"].attrs.update({"sample_varying": True, "time_varying": False, "dim_varying": [True]})

    return well(folder, change)


@case
def well_with_boundary_conditions_elsewhere(folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other.create_group("x").attrs.update({"bc_type": "PERIODIC", "associated_dims": "x"})
    return well(folder, lambda f: f.__setitem__("boundary_conditions", h5py.ExternalLink("other.h5", "/")))


@case
def well_with_fields_elsewhere(folder):
    def change(file):
        del file["t1_fields"]
        file["t1_fields"] = h5py.ExternalLink("other.h5", "/")

    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = ROOM[..., None]
        other.attrs["field_names"] = ["secret"]
    return well(folder, change)


@case
def well_of_four_dimensions(folder):
    return well(folder, lambda file: file["dimensions"].attrs.__setitem__("spatial_dims", ["x", "y", "z", "w"]))


@case
def folder_of_different_grids(folder):
    (folder / "inner").mkdir()
    for n in (7, 11):
        with h5py.File(folder / "inner" / f"{n}.hdf5", "w") as file:
            file["u"] = file["z"] = ROOM[:, 0, :n]
    return (folder / "inner",), {}


# MATLAB before 7.3.


def mat(folder, **variables):
    savemat(folder / "a.mat", variables, do_compression=True)
    return (folder / "a.mat",), {"layout": "b x y"}


@case
def mat_cell(folder):
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = ROOM, ROOM
    return mat(folder, u=cell, z=ROOM)


@case
def mat_struct(folder):
    return mat(folder, u={"inner": ROOM}, z=ROOM)


@case
def mat_text(folder):
    return mat(folder, u="text", z=ROOM)


@case
def mat_complex(folder):
    return mat(folder, u=ROOM + 1j, z=ROOM)


@case
def mat_empty(folder):
    return mat(folder, u=np.zeros((0, 0)), z=ROOM)


@case
def mat_truncated(folder):
    mat(folder, u=ROOM, z=ROOM)
    return bare(folder / "a.mat", (folder / "a.mat").read_bytes()[:-50])


@case
def mat_corrupt(folder):
    mat(folder, u=ROOM, z=ROOM)
    content = bytearray((folder / "a.mat").read_bytes())
    content[160:200] = b"\xff" * 40
    return bare(folder / "a.mat", bytes(content))


@case
def mat_claims_a_petabyte(folder):
    savemat(folder / "a.mat", {"u": ROOM, "z": ROOM})
    content = (folder / "a.mat").read_bytes()
    shape = struct.pack("<iii", 5, 7, 11)
    return bare(folder / "a.mat", content.replace(shape, struct.pack("<iii", 2**20, 2**20, 2**10), 1))


@case
def mat_only_its_header(folder):
    return bare(folder / "a.mat", b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM")


def write_all(folder: Path):
    """Every case in a folder of its own."""
    for label, make in CASES.items():
        (folder / label).mkdir(parents=True)
        yield label, make(folder / label)
