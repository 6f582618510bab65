// Package engine decides what is deployed when. Its packages import only the standard library and
// each other: neither Helm, nor a Kubernetes client, nor a terminal library.
//
//   - plan turns a rendered chart into a Plan, a DAG of groups;
//   - run executes a Plan on a Cluster, controlled by Commands;
//   - event has Event, Command, the Feed that delivers events, and State, their only reducer;
//   - phrase makes sentences of the facts of events;
//   - inspect has what a screen asks of a cluster: changes, pods and logs of objects;
//   - refs and infer find the order that a chart implies, forecast estimates durations;
//   - text makes untrusted text safe to show, parallel spreads work over the cores.
//
// Data flows one way:
//
//	resources, charts ─▶ plan.Build ─▶ run.Engine ─▶ event.Feed ─▶ event.State
//	                                      ▲
//	                                event.Command
//
// The rule numbers in comments (R7, R14 …) are those of RULES.md. A comment "// Rule R7:" marks the
// one place that implements a rule.
package engine
