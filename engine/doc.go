// Package engine decides what is deployed when. Its three rooms know neither Helm nor a Kubernetes client nor a
// screen, and import the standard library alone:
//
//   - plan turns a rendered chart into a Plan, a DAG of groups;
//   - event is the one vocabulary of what happens: Event, Command, the Feed
//     that carries them, and State, the one reducer that draws them;
//   - run carries a plan out against a Cluster, steered by commands.
//
// Data flows one way:
//
//	resources, charts ─▶ plan.Build ─▶ run.Engine ─▶ event.Feed ─▶ event.State
//	                                      ▲
//	                                event.Command
//
// The rule numbers in comments (R7, R14 …) are those of RULES.md, which says what
// "in order" means. A line "Rule R7:" marks the one place that decides a rule.
package engine
