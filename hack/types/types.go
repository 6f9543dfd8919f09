package main

import (
	"fmt"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

const (
	modelPrefix = "io.k8s."
	refPrefix   = "#/components/schemas/"
)

// goPackage is one Go package of API types, named as in OpenAPI without the leading "io.k8s.".
type goPackage struct {
	group, version string
	types          map[string]goType
}

// goType has fields, or is a leaf with a schema and a wire form of its own (Time, Quantity and their like).
//
// A field reads "<protobuf number> <type> <word>...". An embedded struct is named "+<name>": its fields belong to the
// JSON object around it, while on the wire it is a message of its own.
type goType struct {
	Fields *map[string]string `json:"fields,omitempty"`
	Schema map[string]any     `json:"schema,omitempty"`
	Extra  map[string]any     `json:"extra,omitempty"`
}

// rootTypes are the kinds that requests and answers are made of; everything else is found from them.
func rootTypes(resources []tableEntry) []reflect.Type {
	utilruntimeMust(apiextensions.AddToScheme(scheme.Scheme))
	roots := []reflect.Type{
		reflect.TypeFor[metav1.APIGroup](), reflect.TypeFor[metav1.APIGroupList](),
		reflect.TypeFor[metav1.APIResourceList](), reflect.TypeFor[metav1.APIVersions](),
		reflect.TypeFor[metav1.DeleteOptions](), reflect.TypeFor[metav1.PartialObjectMetadata](),
		reflect.TypeFor[metav1.PartialObjectMetadataList](), reflect.TypeFor[metav1.Patch](),
		reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.WatchEvent](), reflect.TypeFor[version.Info](),
	}
	for _, entry := range resources {
		kind := schema.GroupVersionKind{Group: entry.Group, Version: entry.Version, Kind: entry.Kind}
		roots = append(roots, goTypeOf(kind))
		kind.Kind += "List"
		if scheme.Scheme.Recognizes(kind) {
			roots = append(roots, goTypeOf(kind))
		}
		for _, sub := range entry.Subresources {
			roots = append(roots, goTypeOf(schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}))
		}
	}
	return roots
}

func goTypeOf(kind schema.GroupVersionKind) reflect.Type {
	object, err := scheme.Scheme.New(kind)
	utilruntimeMust(err)
	return reflect.TypeOf(object).Elem()
}

func utilruntimeMust(err error) {
	if err != nil {
		panic(err)
	}
}

// collector walks Go types, each once.
type collector struct {
	definitions map[string]common.OpenAPIDefinition
	packages    map[string]*goPackage
}

func collectTypes(roots []reflect.Type) (map[string]*goPackage, error) {
	c := &collector{
		definitions: openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(refPrefix + name) }),
		packages:    map[string]*goPackage{},
	}
	for _, root := range roots {
		if err := c.add(root); err != nil {
			return nil, err
		}
	}
	return c.packages, nil
}

// modelName is the type's OpenAPI name without "io.k8s.", split into package and type.
func modelName(t reflect.Type) (string, string) {
	name := util.GetCanonicalTypeName(reflect.New(t).Elem().Interface())
	name = strings.TrimPrefix(name, modelPrefix)
	return splitName("", name)
}

func (c *collector) add(t reflect.Type) error {
	packageName, typeName := modelName(t)
	pkg := c.packages[packageName]
	if pkg == nil {
		pkg = &goPackage{types: map[string]goType{}}
		if kinds, _, err := scheme.Scheme.ObjectKinds(asObject(t)); err == nil && packageName != "apimachinery.pkg.apis.meta.v1" {
			pkg.group, pkg.version = kinds[0].Group, kinds[0].Version
		}
		c.packages[packageName] = pkg
	}
	if _, seen := pkg.types[typeName]; seen {
		return nil
	}
	definition, found := c.definitions[modelPrefix+packageName+"."+typeName]
	if !found {
		return fmt.Errorf("%s.%s has no OpenAPI definition", packageName, typeName)
	}
	own := plain(definition.Schema)
	if len(definition.Schema.Properties) == 0 && t.NumField() > 0 && !onlyEmbeds(t) {
		pkg.types[typeName] = goType{Schema: own}
		return nil
	}
	fields := map[string]string{}
	pkg.types[typeName] = goType{Fields: &fields, Extra: extras(own)}
	for i := range t.NumField() {
		if err := c.addField(packageName, t.Field(i), definition.Schema, fields); err != nil {
			return fmt.Errorf("%s.%s.%s: %w", packageName, typeName, t.Field(i).Name, err)
		}
	}
	return nil
}
