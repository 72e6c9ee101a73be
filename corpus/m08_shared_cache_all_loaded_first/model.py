"""Prefill and decode share a cache and are both loaded before the first call."""

from corpus.experiment import Experiment
from corpus.m06_shared_cache_reset_by_decode.model import build as lazily


def build():
    experiment = lazily()
    return Experiment(options=experiment.options | {"preload": True}, sequences=experiment.sequences)
