// Package kube is what a program imports that carries out operations on releases
// in order: it lets Helm's own actions do what they do (rendering, hooks, the
// release record, notes) and takes over the one thing they leave open, in which
// order objects reach the cluster.
//
// Client.PrepareInstall and its siblings check everything that can be checked
// without writing and return an Operation; Operation.Run carries it out while a
// Feed tells what happens and Commands steer it. A program that has many at work at
// once gives them the same Watches (see example/fleet). NewOrdered does less: it puts
// the order into a configuration of Helm's own actions.
//
// The rooms behind it, in the order in which an operation walks through them:
//
//	connect     the connection, its transport, bound to a context
//	charts      loading, normalising and rendering, without a cluster
//	manifest    the objects of a manifest: their APIs, late kinds, generated names
//	preflight   all checks, and what they make: Prepared
//	operation   install, upgrade, rollback, uninstall, test; how they end
//	helmclient  the decorator of Helm's Kubernetes client
//	cluster     the engine's requests: apply, delete, watch; Watches to share
//	release     the decorator of Helm's storage, the record, final states
//	preview     what an operation would change
//	view        a look at a release
//	status      when an object is ready; diagnose: why it is not
//	throwaway   the sandbox, a cluster that is brought along
package kube
