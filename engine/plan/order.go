package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// installOrder is the order in which Helm applies kinds. Other kinds come last, by name.
//
// Rule R15: kinds come in Helm's order
var installOrder = strings.Fields(`
	PriorityClass Namespace NetworkPolicy ResourceQuota LimitRange PodSecurityPolicy PodDisruptionBudget
	ServiceAccount Secret SecretList ConfigMap StorageClass PersistentVolume PersistentVolumeClaim
	CustomResourceDefinition ClusterRole ClusterRoleList ClusterRoleBinding ClusterRoleBindingList
	Role RoleList RoleBinding RoleBindingList Service DaemonSet Pod ReplicationController ReplicaSet
	Deployment HorizontalPodAutoscaler StatefulSet Job CronJob IngressClass Ingress APIService
	MutatingWebhookConfiguration ValidatingWebhookConfiguration`)

// kindOrder is the index of each kind in installOrder.
var kindOrder = func() map[string]int {
	order := make(map[string]int, len(installOrder))
	for n, kind := range installOrder {
		order[kind] = n
	}
	return order
}()

// Rank is the position of a kind in apply order.
type Rank struct {
	first int // -2 for Namespaces, -1 for CustomResourceDefinitions (R17)
	known int // the index in installOrder (R15)
	kind  string
}

func rankOf(o Object) Rank {
	r := Rank{kind: o.Kind}
	switch o.GroupKind() {
	case GroupKind{"", "Namespace"}:
		r.first = -2
	case GroupKind{"apiextensions.k8s.io", "CustomResourceDefinition"}:
		r.first = -1
	}
	var ok bool
	if r.known, ok = kindOrder[o.Kind]; !ok {
		r.known = len(installOrder)
	}
	return r
}

// Compare orders ranks: it is negative if r comes before s.
func (r Rank) Compare(s Rank) int {
	return cmp.Or(cmp.Compare(r.first, s.first), cmp.Compare(r.known, s.known), cmp.Compare(r.kind, s.kind))
}

// Ranks returns the rank of each wave, which orders the waves of groups that start together (R15a): the
// lowest rank of an object in this wave or a later one, so ranks never decrease. In a removal the waves are
// reversed: it is the lowest rank in this wave or an earlier one, so ranks never increase.
func (g *Group) Ranks(removal bool) []Rank {
	ranks := make([]Rank, len(g.Waves))
	at := 0
	for n, w := range g.Waves {
		for i, o := range g.Objects[at : at+w.Count] {
			if r := rankOf(o); i == 0 || r.Compare(ranks[n]) < 0 {
				ranks[n] = r
			}
		}
		at += w.Count
	}
	last := len(ranks) - 1
	for n := range last {
		this, next := last-n-1, last-n
		if removal {
			this, next = n+1, n
		}
		if ranks[next].Compare(ranks[this]) < 0 {
			ranks[this] = ranks[next]
		}
	}
	return ranks
}

// arrangement is the order inside a group.
type arrangement struct {
	objects []Object
	waves   []Wave
	// duplicates lists objects that the group has more than once.
	duplicates []Object
	// refused lists objects whose install-before is ignored (R16, R17).
	refused []refusal
}

// refusal is an object whose install-before is ignored, and the reason for the message.
type refusal struct {
	object Object
	why    string
}

// arrange puts the objects of a group into apply order (R15 to R17). It sorts members, whose order does not
// matter.
//
// Rule R17: namespaces come first, then CRDs, and custom resources once their CRD is Established
func arrange(members []*member) arrangement {
	a := arrangement{objects: make([]Object, 0, len(members))}
	s := newSorter(members, &a)
	for s.dropContradictions(&a) {
	}
	definedIn := make(map[Object]int) // the wave of each CRD
	for n, wave := range s.waves() {
		established := map[Object]bool{}
		for _, i := range wave {
			a.objects = append(a.objects, *i.object)
			for _, crd := range s.definers[i.object.GroupKind()] {
				if at, ok := definedIn[crd]; ok && at < n {
					established[crd] = true
				}
			}
			if i.defines != (GroupKind{}) {
				definedIn[*i.object] = n
			}
		}
		a.waves = append(a.waves, Wave{
			Count:       len(wave),
			Established: slices.SortedFunc(maps.Keys(established), Object.Compare),
		})
	}
	slices.SortFunc(a.refused, func(a, b refusal) int { return a.object.compare(&b.object) })
	return a
}

// item is an object of the group, without duplicates.
type item struct {
	object  *Object
	defines GroupKind
	before  []string // sorted kinds of the group that come after it (R16)
}

// sorter finds the order inside one group. Items of one kind with the same install-before form a
// class; the sorter orders classes.
type sorter struct {
	items   []*item // sorted by object
	classes []*class
	// definers lists the objects of the group that define a kind.
	definers map[GroupKind][]Object
}

type class struct {
	rank   Rank
	before []string
	items  []*item
	// place is the lowest rank of this class and those that must come after it. Of classes with the
	// same place, the one with the longest chain of classes after it (lead) comes first.
	place  Rank
	lead   int
	placed bool
}

func newSorter(members []*member, a *arrangement) *sorter {
	slices.SortStableFunc(members, func(a, b *member) int { return a.Object.compare(&b.Object) })
	items := make([]item, 0, len(members))
	s := &sorter{items: make([]*item, 0, len(members)), definers: map[GroupKind][]Object{}}
	for n, m := range members {
		if n == 0 || m.Object != members[n-1].Object {
			items = append(items, item{object: &m.Object})
			s.items = append(s.items, &items[len(items)-1])
		} else if n == 1 || m.Object != members[n-2].Object {
			a.duplicates = append(a.duplicates, m.Object)
		}
		i := s.items[len(s.items)-1]
		if m.Defines != (GroupKind{}) {
			i.defines = m.Defines
		}
		i.before = append(i.before, parseKinds(m.before)...)
	}
	for _, i := range s.items {
		if i.defines != (GroupKind{}) {
			s.definers[i.defines] = append(s.definers[i.defines], *i.object)
		}
		i.before = s.present(i.before)
	}
	s.classify()
	return s
}

// present returns those of the kinds that the group has, sorted, or nil.
func (s *sorter) present(kinds []string) (present []string) {
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		if _, ok := slices.BinarySearchFunc(s.items, kind, func(i *item, kind string) int { return strings.Compare(i.object.Kind, kind) }); ok {
			present = append(present, kind)
		}
	}
	return present
}

// classify divides the items into classes.
func (s *sorter) classify() {
	type classKey struct {
		rank   Rank
		before string
	}
	s.classes = nil
	byKey := make(map[classKey]*class)
	var c *class
	for n, i := range s.items {
		if n == 0 || i.object.GroupKind() != s.items[n-1].object.GroupKind() || !slices.Equal(i.before, c.before) {
			key := classKey{rankOf(*i.object), strings.Join(i.before, ",")}
			if c = byKey[key]; c == nil {
				c = &class{rank: key.rank, place: key.rank, before: i.before}
				byKey[key] = c
				s.classes = append(s.classes, c)
			}
		}
		c.items = append(c.items, i)
	}
}

// dropContradictions clears install-before of items on a cycle or, if there is none, of items that
// would come before their own namespace or CRD. It reports whether there were any.
func (s *sorter) dropContradictions(a *arrangement) bool {
	if !slices.ContainsFunc(s.classes, func(c *class) bool { return c.before != nil }) {
		return false
	}
	byKind := make(map[string][]int)
	for n, c := range s.classes {
		byKind[c.rank.kind] = append(byKind[c.rank.kind], n)
	}
	next := make([][]int, len(s.classes))
	for n, c := range s.classes {
		for _, kind := range c.before {
			for _, m := range byKind[kind] {
				if m != n {
					next[n] = append(next[n], m)
				}
			}
		}
		slices.Sort(next[n])
	}
	refused := len(a.refused)
	for _, cycle := range findCycles(next) {
		for at, n := range cycle {
			why := s.contradiction(slices.Concat(cycle[at+1:], cycle[:at]))
			for _, i := range s.classes[n].items {
				a.refuse(i, why)
			}
		}
	}
	if len(a.refused) == refused {
		for n := range s.classes {
			s.place(next, n)
		}
		s.refuseTooEarly(a)
	}
	if len(a.refused) == refused {
		return false
	}
	s.classify()
	return true
}

// refuse clears the install-before of an item, and records why.
func (a *arrangement) refuse(i *item, why string) {
	if i.before != nil {
		i.before = nil
		a.refused = append(a.refused, refusal{*i.object, why})
	}
}

// contradiction says why install-before of a class is ignored: others are the other classes of its cycle.
func (s *sorter) contradiction(others []int) string {
	var names []string
	for _, n := range others {
		for _, i := range s.classes[n].items {
			names = append(names, i.object.String())
		}
	}
	switch {
	case len(others) > 1:
		return "it forms a cycle with those of " + shortList(names) + "; remove one of these annotations"
	case len(names) > 1:
		return shortList(names) + " ask for the opposite order; remove the annotation on one side"
	}
	return names[0] + " asks for the opposite order; remove one of the two annotations"
}

// place sets the place of a class, and first those of the classes that must come after it. There
// must be no cycle.
//
// Rule R16: install-before puts an object before the kinds that it lists
func (s *sorter) place(next [][]int, n int) {
	c := s.classes[n]
	if c.placed {
		return
	}
	c.placed, c.place, c.lead = true, c.rank, 0
	for _, m := range next[n] {
		s.place(next, m)
		t := s.classes[m]
		if d := t.place.Compare(c.place); d < 0 || d == 0 && t.lead >= c.lead {
			c.place, c.lead = t.place, t.lead+1
		}
	}
}

// refuseTooEarly refuses install-before of items that would come before their own namespace or the CRD
// of their kind, if the group has those (R17).
func (s *sorter) refuseTooEarly(a *arrangement) {
	at := make(map[Object]*class, len(s.items))
	for _, c := range s.classes {
		for _, i := range c.items {
			at[*i.object] = c
		}
	}
	for _, c := range s.classes {
		for _, i := range c.items {
			needs := s.definers[i.object.GroupKind()]
			if i.object.Namespace != "" {
				needs = append(slices.Clip(needs), Object{Kind: "Namespace", Name: i.object.Namespace})
			}
			for _, need := range needs {
				if n := at[need]; n != nil && compareClasses(n, c) >= 0 {
					a.refuse(i, "it would put the object before "+need.String()+", which must come first; remove the annotation")
				}
			}
		}
	}
}

func compareClasses(a, b *class) int {
	return cmp.Or(a.place.Compare(b.place), cmp.Compare(b.lead, a.lead), a.rank.Compare(b.rank))
}

// waves returns the items in batches that are applied one after the other.
func (s *sorter) waves() [][]*item {
	slices.SortStableFunc(s.classes, compareClasses)
	var waves [][]*item
	for n, c := range s.classes {
		if n > 0 && compareClasses(s.classes[n-1], c) == 0 {
			waves[len(waves)-1] = append(waves[len(waves)-1], c.items...)
			continue
		}
		waves = append(waves, c.items)
	}
	for _, wave := range waves {
		slices.SortFunc(wave, func(a, b *item) int { return a.object.compare(b.object) })
	}
	return waves
}
