package auditlog

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Object says who owns an object: what Helm's label and annotations say.
type Object struct {
	Kind  string
	Owner string // "NAMESPACE/RELEASE"; "" if no release owns the object
	Hook  bool   // it has the annotation of a hook
	Keep  bool   // it has the annotation helm.sh/resource-policy: keep
	// Record is the release record that the object is, nil if it is none. The other fields are then not set.
	Record *Record
}

// responseObject is the part of an object's JSON from which Object is made.
type responseObject struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
}

func (r *responseObject) object() *Object {
	a := r.Metadata.Annotations
	o := &Object{Kind: r.Kind, Hook: a["helm.sh/hook"] != "", Keep: a["helm.sh/resource-policy"] == "keep"}
	if release := a["meta.helm.sh/release-name"]; release != "" && r.Metadata.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		o.Owner = a["meta.helm.sh/release-namespace"] + "/" + release
	}
	return o
}

// ForeignWrites returns a line for each write of lockstep to something that belonged to somebody else at that moment, in
// the namespaces of interest ("" for objects without one):
//
//   - a run took over an object that another release owned, or that existed and nobody owned;
//   - a run deleted an object that no release owned, and that lockstep had not made;
//   - a run deleted an object of a release on which it did not work;
//   - a run deleted an object that had existed before its release took it over, and that no deployed revision has had since;
//   - a run deleted a namespace that had an object of another release;
//   - a run wrote to a release, its record or its objects, after somebody else had made a newer revision of it.
//
// It needs a log with objects. A connection counts as one run until it takes the lock of the release again. What a write
// met counts only if it was there when the request came in: requests that cross each other prove nothing.
func (t *Tail) ForeignWrites(interest func(namespace string) bool) (lines []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	log, err := t.read()
	if err != nil {
		return nil, err
	}
	t.writers.addAll(log[t.writers.read:])
	for _, f := range t.writers.foreignWrites {
		if interest(f.namespace) {
			lines = append(lines, f.line)
		}
	}
	return lines, nil
}

// foreignWrite is a line of ForeignWrites.
type foreignWrite struct{ namespace, line string }

// writers is the state of the cluster while a log is read: whose everything is.
type writers struct {
	read          int // number of events of the log
	foreignWrites []foreignWrite

	objects   map[ObjectRef]held      // the existing objects; without versions and subresources
	revisions map[string][]revision   // by "NAMESPACE/RELEASE", in the order of their creation
	holders   map[string]string       // the connection that wrote the Lease of a release last
	locked    map[[2]string]time.Time // when a connection last took the lock of a release
	works     map[string][]string     // by connection: the releases whose Lease or record it has written
}

// held is an existing object: whose it is, since when, and who made it.
type held struct {
	Object
	since time.Time // of the last write
	made  time.Time
	maker string // user agent
	// borrowed says that it existed before its release took it over, and that no revision that was deployed has had it since.
	borrowed bool
}

// revision is a revision of a release: who made it, and when.
type revision struct {
	name, agent, connection string
	at                      time.Time
	record                  *Record
	deployed                bool      // it was deployed once
	ended                   time.Time // of its run, zero while it is unfinished
}

const (
	recordPrefix = "sh.helm.release.v1."
	leasePrefix  = "lockstep.v1."
)

// Borrowed begins the reason of a line about the deletion of what had existed before.
const Borrowed = "deleted what existed before release "

// addAll takes in the next events of a log.
func (w *writers) addAll(l Log) {
	if w.objects == nil {
		w.objects, w.revisions, w.holders = map[ObjectRef]held{}, map[string][]revision{}, map[string]string{}
		w.locked, w.works = map[[2]string]time.Time{}, map[string][]string{}
	}
	w.read += len(l)
	for _, e := range l {
		if !e.Succeeded() || dryRun(e.RequestURI) || e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			continue
		}
		if problem := w.add(e); problem != "" {
			w.foreignWrites = append(w.foreignWrites, foreignWrite{e.Object.Namespace, fmt.Sprintf("%s %s %s %s/%s in %q: %s",
				e.Received.Format("15:04:05.000000"), e.Connection, e.Verb, e.Object.Resource, e.Object.Name, e.Object.Namespace, problem)})
		}
	}
}

// add takes in a write, and returns what is wrong with it, "" if nothing.
func (w *writers) add(e Event) (problem string) {
	o := e.Object
	switch {
	case o.Resource == "leases":
		if release, ok := strings.CutPrefix(o.Name, leasePrefix); ok {
			w.lock(e, o.Namespace+"/"+release)
		}
		return ""
	case o.Resource == "secrets" && strings.HasPrefix(o.Name, recordPrefix):
		return w.record(e, o.Namespace+"/"+releaseOf(o.Name))
	case o.Resource == "events" || o.Subresource != "" || routine(o):
		return ""
	}
	o.APIVersion = ""
	before, existed := w.objects[o]
	existed = existed && before.since.Before(e.Received)
	if e.UserAgent == "lockstep" && existed {
		problem = w.foreign(e, before)
	}
	switch {
	case e.Verb == "deletecollection":
		for other := range w.objects {
			if other.Namespace == o.Namespace && other.Resource == o.Resource && other.APIGroup == o.APIGroup {
				delete(w.objects, other)
			}
		}
	case e.Verb == "delete":
		delete(w.objects, o)
	case e.After != nil && e.Verb != "delete":
		now := held{Object: *e.After, since: e.At, made: e.At, maker: e.UserAgent}
		if existed {
			now.maker, now.made = before.maker, before.made
			now.borrowed = !now.Hook && (before.borrowed || now.Owner != "" && w.borrows(e, before)) // also once it is given back
		}
		w.objects[o] = now
	case e.Verb == "create": // by a component of the cluster, whose objects are not logged
		w.objects[o] = held{since: e.At, maker: e.UserAgent}
	}
	return problem
}

// record takes in a write to a record of a release, and returns what is wrong with it.
func (w *writers) record(e Event, release string) (problem string) {
	problem = w.outdated(e, release)
	w.works[e.Connection] = append(w.works[e.Connection], release)
	all := w.revisions[release]
	at := slices.IndexFunc(all, func(r revision) bool { return r.name == e.Object.Name })
	switch {
	case e.Verb == "create":
		all = append(all, revision{name: e.Object.Name, agent: e.UserAgent, connection: e.Connection, at: e.At})
		at = len(all) - 1
	case e.Verb == "delete" && at >= 0:
		all = slices.Delete(slices.Clone(all), at, at+1)
		at = -1
	}
	if at >= 0 && e.After != nil {
		all[at].record, all[at].ended = e.After.Record, e.At
		if status := e.After.Record.Status; strings.HasPrefix(status, "pending-") || status == "uninstalling" {
			all[at].ended = time.Time{}
		}
		if e.After.Record.Status == "deployed" {
			all[at].deployed = true
			w.deployed(release, e.After.Record)
		}
	}
	w.revisions[release] = all
	return problem
}

// deployed takes in that a revision is deployed: all that it has is its release's.
func (w *writers) deployed(release string, record *Record) {
	for o, h := range w.objects {
		if h.borrowed && h.Owner == release && record.has(h.Kind, o.Name) {
			h.borrowed = false
			w.objects[o] = h
		}
	}
}

// brought reports whether a revision of its release may have brought an object that somebody else has made: the last one that was
// deployed, and while their runs were under way, those that never were.
func (w *writers) brought(o held, name string) bool {
	if o.maker == "lockstep" || strings.HasPrefix(o.maker, "Helm/") {
		return true
	}
	passed, known := false, false
	for _, r := range slices.Backward(w.revisions[o.Owner]) {
		if (!passed && r.deployed || !r.deployed && r.underWay(o.made)) && r.record.has(o.Kind, name) {
			return true
		}
		passed, known = passed || r.deployed, known || r.record != nil
	}
	return !known // else the log has no records
}

// underWay reports whether the run of a revision may have made an object then. Objects have the time of their creation in seconds.
func (r revision) underWay(at time.Time) bool {
	return !at.Before(r.at.Truncate(time.Second)) && (r.ended.IsZero() || !at.Truncate(time.Second).After(r.ended))
}

// borrows reports whether a write makes an existing object that of a release whose revisions do not have it. Revisions before the
// last one that was deployed count for an object that they did not have to keep.
func (w *writers) borrows(e Event, before held) bool {
	if e.UserAgent != "lockstep" || before.Owner == e.After.Owner && before.maker == "lockstep" && !before.Keep {
		return false
	}
	all := w.revisions[e.After.Owner]
	for i, r := range slices.Backward(all) {
		own := i == len(all)-1 && r.connection == e.Connection && !r.deployed
		if !own && r.record.has(e.After.Kind, e.Object.Name) || own && r.at.Before(before.since) && before.Owner == e.After.Owner {
			return false
		}
		if r.deployed && before.Keep {
			return true
		}
	}
	return len(all) > 0 && all[len(all)-1].record != nil // else the log has no records
}

// lock takes in a write to the Lease of a release. Renewing it is not taking it.
func (w *writers) lock(e Event, release string) {
	w.works[e.Connection] = append(w.works[e.Connection], release)
	if w.holders[release] != e.Connection {
		w.locked[[2]string{e.Connection, release}] = e.At
	}
	w.holders[release] = e.Connection
	if e.Verb == "delete" {
		delete(w.holders, release)
	}
}

// foreign returns why lockstep must not have written to an existing object.
func (w *writers) foreign(e Event, before held) string {
	worksOn := w.works[e.Connection] // nil for a program that uses kube's client, and writes its records itself
	switch {
	case e.Verb == "delete" && before.Owner == "" && !before.Hook && before.maker != "lockstep":
		return "deleted an object of no release, made by " + before.maker
	case e.Verb == "delete" && before.Owner != "" && worksOn != nil && !slices.Contains(worksOn, before.Owner):
		return "deleted an object of release " + before.Owner
	case e.Verb == "delete" && before.Owner != "" && !before.Hook && !w.brought(before, e.Object.Name):
		return "deleted an object that no revision of release " + before.Owner + " has created since the last deployed one, made by " + before.maker
	case e.Verb == "delete" && e.Object.Resource == "namespaces" && w.guest(e, before.Owner) != "":
		return "deleted a namespace with an object of release " + w.guest(e, before.Owner)
	case e.Verb == "delete" && before.borrowed:
		return Borrowed + before.Owner + " took it over, made by " + before.maker
	case e.After != nil && e.Verb != "delete" && e.After.Owner != "" && before.Owner != e.After.Owner && !(before.Owner == "" && before.maker == "lockstep"):
		if before.Owner == "" {
			return "took over an object of no release, made by " + before.maker
		}
		return "took over an object of release " + before.Owner
	}
	return w.outdated(e, before.Owner)
}

// guest returns another release than the owner of a namespace that has an object in it, "" for none.
func (w *writers) guest(e Event, owner string) string {
	for o, h := range w.objects {
		if o.Namespace == e.Object.Name && h.Owner != "" && h.Owner != owner && h.since.Before(e.Received) {
			return h.Owner
		}
	}
	return ""
}

// outdated returns why a connection of lockstep must not have written to a release: its newest revision is somebody
// else's, and the connection has not taken the lock since.
func (w *writers) outdated(e Event, release string) string {
	all := w.revisions[release]
	if e.UserAgent != "lockstep" || len(all) == 0 {
		return ""
	}
	newest := all[len(all)-1]
	if newest.connection == e.Connection || !newest.at.Before(e.Received) {
		return ""
	}
	if locked := w.locked[[2]string{e.Connection, release}]; locked.IsZero() || locked.After(newest.at) {
		return ""
	}
	return fmt.Sprintf("%s is newer, made by %s %s", newest.name, newest.agent, newest.connection)
}

// releaseOf returns the release of a record's name: "sh.helm.release.v1.shop.v3" is of shop.
func releaseOf(record string) string {
	name := strings.TrimPrefix(record, recordPrefix)
	return name[:max(0, strings.LastIndex(name, ".v"))]
}
