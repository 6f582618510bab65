// Package engine decides what is deployed when. Its packages know neither Helm nor a Kubernetes
// client nor a screen, and import only the standard library and each other:
//
//   - plan turns a rendered chart into a Plan, a DAG of groups;
//   - run carries a Plan out on a Cluster, steered by Commands;
//   - event has Event, Command, the Feed that delivers events, and State, their only reducer;
//   - refs and infer find the order that a chart implies, forecast estimates durations.
//
// Data flows one way:
//
//	resources, charts ─▶ plan.Build ─▶ run.Engine ─▶ event.Feed ─▶ event.State
//	                                      ▲
//	                                event.Command
//
// The rule numbers in comments (R7, R14 …) are those of RULES.md. A line "// Rule R7:" marks the
// one place that decides a rule.
package engine
