// Package charts is everything between a chart's name and what plan.Build
// needs: it finds and loads charts, reads the ordering that Helm's own loader
// drops, renders templates, and cuts a rendered manifest into objects that know
// the chart they came from. It never writes to a cluster.
//
// Two things that Helm refuses are put into a form that it takes, before it
// sees them (R1): lists in the annotations of Chart.yaml, when the chart is
// loaded, and lists in the annotations of rendered objects, by wrapping the
// templates for the time of a render (see WrapTemplates).
//
// The usual ways through the package:
//
//	Load ─▶ Chart ─▶ Render ─▶ Rendered (tree, resources, warnings)   offline: dag, template, lint
//	          │
//	          ├─▶ Tree                       the chart tree of R4, R11, R12
//	          └─▶ Helm + WrapTemplates ─▶ an action of Helm's ─▶ Parse ─▶ Resources
//
// It has more files than other packages, since loading and rendering normalise
// annotations by the same code (node.go, normalise.go, annotations.go), whose
// names would all have to be exported if either were a package of its own.
package charts
