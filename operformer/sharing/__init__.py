"""How an operator is handed on: models that come along, the Hub, cards, graphs, the trainers of other libraries."""
