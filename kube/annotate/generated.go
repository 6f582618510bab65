package annotate

import (
	"fmt"
	"reflect"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// generated are the keys, certificates and hashes that templates have generated. Some charts need more time for them than for
// everything else. The trial renderings of a chart share them, because two renderings differ in them anyway.
//
// Nothing invalidates them: they belong to one writer, and a call with other arguments generates others.
type generated struct {
	mu      sync.Mutex
	results map[string][]reflect.Value
}

// slowFuncs are the functions of templates that generate keys, certificates and hashes.
var slowFuncs = []string{
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
	"bcrypt", "htpasswd", "derivePassword",
}

// funcs returns the functions for one rendering. Repeated calls in it have different results, as in Helm.
func (g *generated) funcs() template.FuncMap {
	funcs, sprigFuncs, calls := template.FuncMap{}, sprig.TxtFuncMap(), map[string]int{}
	for _, name := range slowFuncs {
		f := reflect.ValueOf(sprigFuncs[name])
		funcs[name] = reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
			call := name
			for _, arg := range args {
				call += fmt.Sprintf(" %#v", arg)
			}
			calls[call]++
			return g.result(fmt.Sprintf("%s #%d", call, calls[call]), func() []reflect.Value { return f.Call(args) })
		}).Interface()
	}
	return funcs
}

// result returns the result of a call, which it makes once.
func (g *generated) result(call string, do func() []reflect.Value) []reflect.Value {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.results[call] == nil {
		if g.results == nil {
			g.results = map[string][]reflect.Value{}
		}
		g.results[call] = do()
	}
	return g.results[call]
}
