package charts

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxResult limits the result of one call of a template function, in bytes. An allocation of
// many GiB could kill the process before Guard.Run checks the limits.
const maxResult = 256 << 20

// sizes has an entry for each function of sprig whose result can be as large as an argument says. It
// returns the size of the result in bytes.
var sizes = map[string]func(args []reflect.Value) float64{
	"randAlphaNum": runes, "randAlpha": runes, "randAscii": runes, "randNumeric": runes,
	"randBytes": firstArg,
	"repeat":    func(args []reflect.Value) float64 { return firstArg(args) * float64(args[1].Len()) },
	"indent":    indented, "nindent": indented,
	"until": func(args []reflect.Value) float64 { return 8 * math.Abs(firstArg(args)) },
	"untilStep": func(args []reflect.Value) float64 {
		return 8 * steps(firstArg(args), firstArg(args[1:]), firstArg(args[2:]))
	},
	"seq": func(args []reflect.Value) float64 { return 16 * seqSteps(args[0].Interface().([]int)) },
}

func firstArg(args []reflect.Value) float64 { return float64(args[0].Int()) }

func runes(args []reflect.Value) float64 { return 4 * firstArg(args) }

func indented(args []reflect.Value) float64 {
	return firstArg(args) * float64(1+strings.Count(args[1].String(), "\n"))
}

// limitedFuncs returns the functions in sizes with a limit on the size of their results.
func (g *Guard) limitedFuncs() template.FuncMap {
	funcs, sprigFuncs := template.FuncMap{}, sprig.TxtFuncMap()
	for name, size := range sizes {
		f := reflect.ValueOf(sprigFuncs[name])
		signature := f.Type()
		var in []reflect.Type
		for i := range signature.NumIn() {
			in = append(in, signature.In(i))
		}
		errorType := reflect.TypeFor[error]()
		limitedSignature := reflect.FuncOf(in, []reflect.Type{signature.Out(0), errorType}, signature.IsVariadic())
		funcs[name] = reflect.MakeFunc(limitedSignature, func(args []reflect.Value) []reflect.Value {
			if err := g.checkCall(name, size(args)); err != nil {
				return []reflect.Value{reflect.Zero(signature.Out(0)), reflect.ValueOf(err)}
			}
			call := f.Call
			if signature.IsVariadic() {
				call = f.CallSlice
			}
			return append(call(args), reflect.Zero(errorType))[:2] // f's own error, if it returns one
		}).Interface()
	}
	return funcs
}

// checkCall returns an error if the rendering was abandoned or the result would be too large.
func (g *Guard) checkCall(name string, bytes float64) error {
	if err := g.abandoned(); err != nil {
		return err
	}
	if bytes > maxResult {
		return fmt.Errorf("%s would produce %s; the limit is %s", name, formatBytes(bytes), formatBytes(maxResult))
	}
	return nil
}

// steps returns the length of untilStep's result.
func steps(start, stop, step float64) float64 {
	if n := (stop - start) / step; step != 0 && n > 0 {
		return n
	}
	return 0
}

// seqSteps returns the maximum length of seq's result.
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
