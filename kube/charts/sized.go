package charts

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxResult is how much one call of a template function may make, in bytes. A
// single piece of memory of many GiB ends a Go program, or the machine, before
// anybody can look.
const maxResult = 256 << 20

// sizes says of sprig's functions whose result is as large as an argument says how
// large that is, in bytes.
var sizes = map[string]func(args []reflect.Value) float64{
	"randAlphaNum": runes, "randAlpha": runes, "randAscii": runes, "randNumeric": runes,
	"randBytes": number,
	"repeat":    func(args []reflect.Value) float64 { return number(args) * float64(args[1].Len()) },
	"indent":    indented, "nindent": indented,
	"until":     func(args []reflect.Value) float64 { return 8 * math.Abs(number(args)) },
	"untilStep": func(args []reflect.Value) float64 { return 8 * steps(number(args), number(args[1:]), number(args[2:])) },
	"seq":       func(args []reflect.Value) float64 { return 16 * seqSteps(args[0].Interface().([]int)) },
}

func number(args []reflect.Value) float64 { return float64(args[0].Int()) }

func runes(args []reflect.Value) float64 { return 4 * number(args) }

func indented(args []reflect.Value) float64 {
	return number(args) * float64(1+strings.Count(args[1].String(), "\n"))
}

// sized returns these functions, which refuse what is too large.
func (g *Guard) sized() template.FuncMap {
	funcs, of := template.FuncMap{}, sprig.TxtFuncMap()
	for name, size := range sizes {
		f := reflect.ValueOf(of[name])
		t := f.Type()
		var in []reflect.Type
		for i := range t.NumIn() {
			in = append(in, t.In(i))
		}
		failed := reflect.TypeFor[error]()
		with := reflect.FuncOf(in, []reflect.Type{t.Out(0), failed}, t.IsVariadic())
		funcs[name] = reflect.MakeFunc(with, func(args []reflect.Value) []reflect.Value {
			if err := g.allow(name, size(args)); err != nil {
				return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(err)}
			}
			call := f.Call
			if t.IsVariadic() {
				call = f.CallSlice
			}
			return append(call(args), reflect.Zero(failed))[:2]
		}).Interface()
	}
	return funcs
}

// allow refuses a call once the rendering was given up, or where it would make too much.
func (g *Guard) allow(name string, bytes float64) error {
	if err := g.over(); err != nil {
		return err
	}
	if bytes > maxResult {
		return fmt.Errorf("%s would produce %s, and the limit is %s", name, quantity(bytes), quantity(maxResult))
	}
	return nil
}

// steps is how many numbers untilStep makes.
func steps(start, stop, step float64) float64 {
	if n := (stop - start) / step; step != 0 && n > 0 {
		return n
	}
	return 0
}

// seqSteps is how many numbers seq makes at most.
func seqSteps(params []int) float64 {
	switch len(params) {
	case 1:
		return math.Abs(float64(params[0])) + 2
	case 2:
		return math.Abs(float64(params[1])-float64(params[0])) + 1
	case 3:
		return math.Abs(steps(float64(params[0]), float64(params[2]), float64(params[1]))) + 1
	}
	return 0
}
