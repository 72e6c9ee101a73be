"""`seed_two_conds` with the planning options of the public discussion: inputs are the caller's, outputs are planned."""

from corpus.seed_two_conds import model


def build():
    return model.build(alloc_graph_input=False, alloc_graph_output=True)
