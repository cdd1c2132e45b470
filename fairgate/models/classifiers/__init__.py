"""Models whose labels are fixed when they are trained: image classifiers, of one attribute or of several."""
