package status

import (
	"testing"
	"time"

	"lockstep/engine/event"
)

// TestProgress: the counts of pods are facts of their own, and only those of workloads, whatever a message begins with.
func TestProgress(t *testing.T) {
	for text, want := range map[string]event.Progress{
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, replicas: 4, updatedReplicas: 3, availableReplicas: 2,
			conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: exceeded quota}]}}`: {Done: 2, Wanted: 3, Word: "available", Old: 1},
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 3}}`:           {},
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, replicas: 3, readyReplicas: 2, updatedReplicas: 1}}`: {Done: 2, Wanted: 3, Word: "ready", Outdated: 2},
		`{apiVersion: example.com/v1, kind: Database, metadata: {name: d, generation: 1}, status: {observedGeneration: 1,
			conditions: [{type: Ready, status: "False", reason: "2 of 3 nodes", message: "1 is away"}]}}`: {},
	} {
		if got := Compute(object(t, text), Rule{}, time.Now()); got.Progress != want {
			t.Errorf("%s: %+v of %q, want %+v", text, got.Progress, got.Message, want)
		}
	}
}
