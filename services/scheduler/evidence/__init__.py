"""Checks before anything is bought: is the picture of the cluster true, and do the pods still wait?"""
