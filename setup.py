"""Finds the packages; everything else is in pyproject.toml, which cannot add one to those found."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["hazard", "hazard.*"]), "hazard.rules"])
