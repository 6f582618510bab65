// Package kube carries out operations on releases: it lets Helm's own actions
// do what they do (rendering, hooks, the release record, notes) and takes over
// the one thing they leave open, in which order objects reach the cluster.
//
// Client.Install and its siblings check everything that can be checked without
// writing and return an Operation; Operation.Run carries it out while a Feed
// tells what happens and Commands steer it.
//
// How it gets between Helm and the cluster is in ordered.go (the decorator of
// Helm's Kubernetes client) and record.go (the decorator of its storage).
package kube
