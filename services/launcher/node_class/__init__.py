"""AWSNodeTemplates and EC2NodeClasses: what they select in AWS, their status, and their end."""
