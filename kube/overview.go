package kube

import "lockstep/kube/overview"

// What follows all releases of a namespace.
type (
	Overview      = overview.Overview
	ReleaseKey    = overview.Key
	ReleaseRow    = overview.Release
	ReleaseHealth = overview.Health
)

// Overview returns what follows the releases of a namespace, "" for all.
func (c *Client) Overview(namespace string) *Overview { return overview.New(c.Client, namespace) }
