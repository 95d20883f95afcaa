"""kube-scheduler: filters, scores, a queue of equal pods, and the loop that binds pods."""
