"""From the chart to what is made of it: its schema, the plain manifests and the reference of its values."""
