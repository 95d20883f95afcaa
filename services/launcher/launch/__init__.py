"""From a Machine to its instance: one CreateFleet call for Machines with equal requests, safe against every crash."""
