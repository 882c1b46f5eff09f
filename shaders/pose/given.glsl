// <pose> of train/begin_step.comp: cameras stand where the scene says.
Camera posed(Camera view, uint photograph) { return view; }
