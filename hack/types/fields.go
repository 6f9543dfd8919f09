package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func asObject(t reflect.Type) runtime.Object {
	object, _ := reflect.New(t).Interface().(runtime.Object)
	return object
}

// onlyEmbeds tells a struct that has no property of its own in JSON from a leaf type.
func onlyEmbeds(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, hasTag := t.Field(i).Tag.Lookup("json"); !hasTag || t.Field(i).Tag.Get("json") == "-" {
			return false
		}
	}
	return true
}

// plain is a schema as JSON without prose and without what the fields themselves say.
func plain(source spec.Schema) map[string]any {
	data, err := json.Marshal(source)
	utilruntimeMust(err)
	var schema map[string]any
	utilruntimeMust(json.Unmarshal(data, &schema))
	delete(schema, "x-kubernetes-v2-schema")
	dropProse(schema)
	return schema
}

func dropProse(schema map[string]any) {
	delete(schema, "description")
	for _, value := range schema {
		if nested, isMap := value.(map[string]any); isMap {
			dropProse(nested)
		}
	}
}

func extras(schema map[string]any) map[string]any {
	extra := map[string]any{}
	for key, value := range schema {
		if key != "properties" && key != "required" && key != "type" {
			extra[key] = value
		}
	}
	return extra
}

func (c *collector) addField(packageName string, field reflect.StructField, owner spec.Schema, fields map[string]string) error {
	jsonName, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if jsonName == "-" || !field.IsExported() {
		return nil
	}
	number := "0" // not on the wire
	if tag := field.Tag.Get("protobuf"); tag != "" && tag != "-" {
		number = strings.Split(tag, ",")[1]
	}
	expression, err := c.expression(packageName, field.Type)
	if err != nil {
		return err
	}
	if jsonName == "" {
		fields["+"+field.Name] = number + " " + expression
		return nil
	}
	property, found := owner.Properties[jsonName]
	if !found {
		return fmt.Errorf("no OpenAPI property %q", jsonName)
	}
	words := []string{number, expression}
	omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	switch required := slices.Contains(owner.Required, jsonName); {
	case required && omitted:
		words = append(words, "required", "omitempty")
	case required:
		words = append(words, "required")
	case !omitted:
		words = append(words, "always")
	}
	more, err := c.schemaWords(plain(property), packageName, strings.TrimPrefix(expression, "*"))
	if err != nil {
		return err
	}
	fields[jsonName] = strings.Join(append(words, more...), " ")
	return nil
}

// expression names a Go type: *T present or not, []T list, {}T map with string keys, <>T a list that is a message of
// its own on the wire, Name a type of the same package, package.Name one of another.
func (c *collector) expression(packageName string, t reflect.Type) (string, error) {
	switch t.Kind() {
	case reflect.Pointer:
		inner, err := c.expression(packageName, t.Elem())
		return "*" + inner, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return "", fmt.Errorf("map key %s", t.Key())
		}
		inner, err := c.expression(packageName, t.Elem())
		return "{}" + inner, err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		inner, err := c.expression(packageName, t.Elem())
		if _, isMessage := reflect.New(t).Interface().(interface{ Unmarshal([]byte) error }); isMessage {
			return "<>" + inner, err
		}
		return "[]" + inner, err
	case reflect.Struct:
		if err := c.add(t); err != nil {
			return "", err
		}
		typePackage, typeName := modelName(t)
		if typePackage == packageName {
			return typeName, nil
		}
		return typePackage + "." + typeName, nil
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return t.Kind().String(), nil
	case reflect.Int:
		return "int32", nil
	default:
		return "", fmt.Errorf("no notation for %s", t)
	}
}

var scalarSchemas = map[string]string{
	"string": `{"type":"string"}`, "bool": `{"type":"boolean"}`, "bytes": `{"format":"byte","type":"string"}`,
	"int32": `{"format":"int32","type":"integer"}`, "int64": `{"format":"int64","type":"integer"}`,
	"float64": `{"format":"double","type":"number"}`,
}

// schemaWords says what a property's schema adds to its type, and fails on anything it has no word for.
func (c *collector) schemaWords(schema map[string]any, packageName, expression string) ([]string, error) {
	var words []string
	take := func(key string) any {
		value := schema[key]
		delete(schema, key)
		return value
	}
	listType, _ := take("x-kubernetes-list-type").(string)
	if keys, isMap := take("x-kubernetes-list-map-keys").([]any); isMap {
		listType += ":" + joined(keys, ",")
	}
	if listType != "" {
		words = append(words, "list="+listType)
	}
	if mapType, found := take("x-kubernetes-map-type").(string); found {
		words = append(words, "map="+mapType)
	}
	strategy, _ := take("x-kubernetes-patch-strategy").(string)
	if key, found := take("x-kubernetes-patch-merge-key").(string); found {
		strategy += ":" + key
	}
	if strategy != "" {
		words = append(words, "patch="+strategy)
	}
	if enum, found := take("enum").([]any); found {
		words = append(words, "enum="+joined(enum, "|"))
	}
	if value, found := schema["default"]; found {
		delete(schema, "default")
		if isZero(value) {
			words = append(words, "zero")
		} else {
			data, _ := json.Marshal(value)
			words = append(words, "default="+string(data))
		}
	}
	if enum := itemEnum(schema); enum != "" {
		words = append(words, "each="+enum)
	}
	for i, word := range words {
		if strings.Contains(word, "%") {
			return nil, fmt.Errorf("a %% in %q", word)
		}
		words[i] = strings.ReplaceAll(word, " ", "%20")
	}
	return words, c.matches(schema, packageName, expression)
}

// itemEnum takes the values that a list's items or a map's values may have out of its schema.
func itemEnum(schema map[string]any) string {
	for _, key := range []string{"items", "additionalProperties"} {
		inner, _ := schema[key].(map[string]any)
		if enum, found := inner["enum"].([]any); found {
			delete(inner, "enum")
			return joined(enum, "|")
		}
	}
	return ""
}

// matches checks that the reader's rule gives this very schema for the type: what is written down is complete.
func (c *collector) matches(schema map[string]any, packageName, expression string) error {
	got, _ := json.Marshal(schema)
	want, _ := json.Marshal(c.derived(packageName, expression))
	if string(got) != string(want) {
		return fmt.Errorf("%s has the schema %s, expected %s", expression, got, want)
	}
	return nil
}

func (c *collector) derived(packageName, expression string) map[string]any {
	item := func(inner string) map[string]any {
		schema := c.derived(packageName, strings.TrimPrefix(inner, "*"))
		switch {
		case strings.HasPrefix(inner, "*"):
		case schema["$ref"] != nil:
			if !c.isLeaf(packageName, inner) {
				schema["default"] = map[string]any{}
			}
		case schema["format"] == "byte", schema["type"] == "array", schema["type"] == "object":
		case schema["type"] == "string":
			schema["default"] = ""
		case schema["type"] == "boolean":
			schema["default"] = false
		default:
			schema["default"] = 0
		}
		return schema
	}
	switch {
	case scalarSchemas[expression] != "":
		var schema map[string]any
		utilruntimeMust(json.Unmarshal([]byte(scalarSchemas[expression]), &schema))
		return schema
	case strings.HasPrefix(expression, "[]"), strings.HasPrefix(expression, "<>"):
		return map[string]any{"type": "array", "items": item(expression[2:])}
	case strings.HasPrefix(expression, "{}"):
		return map[string]any{"type": "object", "additionalProperties": item(expression[2:])}
	default:
		typePackage, typeName := splitName(packageName, expression)
		return map[string]any{"$ref": refPrefix + modelPrefix + typePackage + "." + typeName}
	}
}

// isLeaf tells types with a schema of their own: their zero value is not an empty object.
func (c *collector) isLeaf(packageName, expression string) bool {
	typePackage, typeName := splitName(packageName, expression)
	return c.packages[typePackage].types[typeName].Fields == nil
}

func splitName(packageName, expression string) (string, string) {
	if dot := strings.LastIndex(expression, "."); dot >= 0 {
		return expression[:dot], expression[dot+1:]
	}
	return packageName, expression
}

func joined(values []any, separator string) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, separator)
}

func isZero(value any) bool {
	switch typed := value.(type) {
	case string:
		return typed == ""
	case float64:
		return typed == 0
	case bool:
		return !typed
	case map[string]any:
		return len(typed) == 0
	}
	return false
}
