"""What the page shows beside the picture: details, decisions, cost, interruptions, queues, health."""
