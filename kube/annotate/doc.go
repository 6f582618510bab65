// Package annotate writes the order of a chart into its files: groups into the
// metadata.annotations of templates, and what subcharts wait for into Chart.yaml.
//
// It only ever inserts lines: taken out again, they leave the bytes that were
// there. Where a template has room for annotations is guessed from its text, and
// then found out: each place gets a mark, the chart is rendered in memory, and the
// objects that carry the mark are the ones that the place is for. What is written
// in the end is rendered once more, and has to give the plan that was wanted.
//
//	Prepare ─▶ Result ─▶ Write     all files, or none
//	              └────▶ Left      what has to be put in by hand, and where
package annotate
