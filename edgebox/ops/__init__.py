"""The processes: worker, epoch, signals."""
