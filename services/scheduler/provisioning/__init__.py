"""Provisioning: pods that wait are batched, planned for, and given new Machines."""
