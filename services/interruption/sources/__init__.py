"""Where notices come from: the SQS queue, EC2's status checks, and scheduled events that machines wait for."""
