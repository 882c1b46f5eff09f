// <moved> of train/begin_step.comp for fits that have no splats.
void list_moved(bool moves) {}
