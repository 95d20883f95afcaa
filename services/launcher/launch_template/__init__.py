"""Launch templates in EC2: their content, when they are made and when they are deleted."""
