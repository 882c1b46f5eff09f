"""Reports as HTML files that hold all they show: pictures and plots as data URIs, styles and script
inline, nothing from the network."""
