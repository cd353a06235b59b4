// Before the first paint, so that a chosen theme does not flash; a plain script, since modules run later.
document.documentElement.dataset.theme = localStorage.getItem("kvlab.theme") ?? "system";
