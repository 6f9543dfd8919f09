//go:build ignore

// Asks the CEL environment of the pinned Kubernetes what expressions mean, so that our engine can be held to it.
//
// Reads questions (JSON lines with "on", a subject of subjects.json, and "expr"), writes them with answers. To answer
// the committed ones again, from hack/kube/1.36:
//
//	data=../../../tests/unit/apiserver/cel/testdata
//	go run $data/answers.go $data/subjects.json < $data/answers.jsonl > new && mv new $data/answers.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type subject struct {
	Schema json.RawMessage        `json:"schema"`
	Root   bool                   `json:"root"`
	Self   interface{}            `json:"self"`
	Vars   map[string]interface{} `json:"vars"`
}

type question struct {
	On      string      `json:"on"`
	Expr    string      `json:"expr"`
	Compile string      `json:"compile,omitempty"`
	Type    string      `json:"type,omitempty"`
	Value   interface{} `json:"value,omitempty"`
	Error   string      `json:"error,omitempty"`
}

func main() {
	subjects := map[string]subject{}
	file, err := os.Open(os.Args[1])
	check(err)
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	check(decoder.Decode(&subjects))
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 36))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		check(json.Unmarshal(lines.Bytes(), &asked))
		answered := question{On: asked.On, Expr: asked.Expr}
		answer(base, subjects[asked.On], &answered)
		check(encoder.Encode(answered))
	}
}

func answer(base *environment.EnvSet, on subject, out *question) {
	defer func() {
		if problem := recover(); problem != nil {
			out.Error = fmt.Sprint("PANIC ", problem)
		}
	}()
	variables := map[string]interface{}{}
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	for name, value := range on.Vars {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(name, cel.DynType))
		variables[name] = native(value)
	}
	if on.Schema != nil {
		var parsed spec.Schema
		check(json.Unmarshal(on.Schema, &parsed))
		var schema common.Schema = &openapi.Schema{Schema: &parsed}
		declared := common.SchemaDeclType(schema, on.Root).MaybeAssignTypeName("selfType")
		if on.Root {
			schema = schema.WithTypeAndObjectMeta()
		}
		for _, name := range []string{"self", "oldSelf"} {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(name, declared.CelType()))
			variables[name] = common.UnstructuredToVal(native(on.Self), schema)
		}
		options.DeclTypes = []*apiservercel.DeclType{declared}
	}
	extended, err := base.Extend(options)
	check(err)
	env, err := extended.Env(environment.StoredExpressions)
	check(err)
	compiled, issues := env.Compile(out.Expr)
	if issues.Err() != nil {
		out.Compile = issues.String()
		return
	}
	out.Type = cel.FormatCELType(compiled.OutputType())
	program, err := env.Program(compiled)
	if err != nil {
		out.Error = err.Error()
		return
	}
	value, _, err := program.Eval(variables)
	if err != nil {
		out.Error = err.Error()
		return
	}
	out.Value = tagged(value)
}

// tagged names the type of a value, since JSON has too few of them.
func tagged(value ref.Val) interface{} {
	switch typed := value.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return map[string]string{value.Type().TypeName(): fmt.Sprint(value.Value())}
	case types.Bytes:
		return map[string]string{"bytes": fmt.Sprintf("%x", []byte(typed))}
	case types.Null:
		return map[string]string{"null": ""}
	case types.Duration:
		return map[string]string{"duration": fmt.Sprint(int64(typed.Duration))}
	case types.Timestamp:
		return map[string]string{"timestamp": typed.UTC().Format("2006-01-02T15:04:05.999999999Z")}
	case *types.Optional:
		if !typed.HasValue() {
			return map[string]interface{}{"optional": nil}
		}
		return map[string]interface{}{"optional": tagged(typed.GetValue())}
	case traits.Lister:
		elements := []interface{}{}
		for it := typed.Iterator(); it.HasNext() == types.True; {
			elements = append(elements, tagged(it.Next()))
		}
		return map[string]interface{}{"list": elements}
	case traits.Mapper:
		entries := map[string]interface{}{}
		for it := typed.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries[fmt.Sprint(key.Type().TypeName(), " ", key.Value())] = tagged(typed.Get(key))
		}
		return map[string]interface{}{"map": entries}
	case *types.Type:
		return map[string]string{"type": typed.TypeName()}
	default:
		return map[string]string{"opaque": value.Type().TypeName()}
	}
}

// native turns JSON numbers into what Kubernetes' own decoder makes of them.
func native(value interface{}) interface{} {
	switch typed := value.(type) {
	case json.Number:
		if !strings.ContainsAny(typed.String(), ".eE") {
			whole, err := typed.Int64()
			check(err)
			return whole
		}
		fraction, err := typed.Float64()
		check(err)
		return fraction
	case map[string]interface{}:
		for key := range typed {
			typed[key] = native(typed[key])
		}
	case []interface{}:
		for index := range typed {
			typed[index] = native(typed[index])
		}
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
