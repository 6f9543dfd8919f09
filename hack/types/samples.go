package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// sample is one object as Go writes it in both encodings: what the Python decoder is tested with.
type sample struct {
	Name     string          `json:"name"`
	Protobuf string          `json:"protobuf"` // base64
	JSON     json.RawMessage `json:"json"`
}

// writeSamples writes every kind three times: all fields set, none set, and every pointer set to a zero value.
func writeSamples(resources []tableEntry, output string) error {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var samples []sample
	for _, kind := range sampleKinds(resources) {
		for _, variant := range []string{"full", "empty", "zero"} {
			object, err := scheme.Scheme.New(kind)
			utilruntimeMust(err)
			filler := &filler{zero: variant == "zero"}
			if variant != "empty" {
				filler.fill(reflect.ValueOf(object).Elem(), nil)
			}
			object.GetObjectKind().SetGroupVersionKind(kind)
			var wire bytes.Buffer
			if err := serializer.Encode(object, &wire); err != nil {
				return fmt.Errorf("%s %s: %w", kind, variant, err)
			}
			document, err := json.Marshal(object)
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind, variant, err)
			}
			samples = append(samples, sample{
				Name:     fmt.Sprintf("%s %s %s", kind.GroupVersion(), kind.Kind, variant),
				Protobuf: base64.StdEncoding.EncodeToString(wire.Bytes()),
				JSON:     document,
			})
		}
	}
	data, err := json.Marshal(samples)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = writer.Write(data)
	_ = writer.Close()
	return os.WriteFile(output, packed.Bytes(), 0o644)
}

func sampleKinds(resources []tableEntry) []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "DeleteOptions"}}
	seen := map[schema.GroupVersionKind]bool{}
	add := func(kind schema.GroupVersionKind) {
		if !seen[kind] {
			seen[kind] = true
			kinds = append(kinds, kind)
		}
	}
	for _, entry := range resources {
		add(schema.GroupVersionKind{Group: entry.Group, Version: entry.Version, Kind: entry.Kind})
		for _, sub := range entry.Subresources {
			add(schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind})
		}
	}
	return kinds
}

// filler sets fields one after the other to values that differ, so that a mix-up of two fields shows.
type filler struct {
	counter int64
	zero    bool
}

func (f *filler) next() int64 {
	if f.zero {
		return 0
	}
	f.counter++
	return f.counter
}

func (f *filler) fill(value reflect.Value, above []reflect.Type) {
	if f.fillLeaf(value) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if depth(above, value.Type().Elem()) > 1 {
			return // a recursive type ends here
		}
		value.Set(reflect.New(value.Type().Elem()))
		f.fill(value.Elem(), above)
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Field(i).CanSet() && value.Type().Field(i).Name != "TypeMeta" {
				f.fill(value.Field(i), append(above, value.Type()))
			}
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(fmt.Sprintf("\xff\x00%d", f.next())))
			return
		}
		count := 2
		if depth(above, value.Type().Elem()) > 0 || value.Type().Elem().Kind() == reflect.Struct {
			count = 1
		}
		if depth(above, value.Type().Elem()) > 1 {
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), count, count))
		for i := range count {
			f.fill(value.Index(i), above)
		}
	case reflect.Map:
		if depth(above, value.Type().Elem()) > 1 {
			return
		}
		value.Set(reflect.MakeMap(value.Type()))
		element := reflect.New(value.Type().Elem()).Elem()
		f.fill(element, above)
		value.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", f.next())).Convert(value.Type().Key()), element)
	case reflect.String:
		if !f.zero {
			value.SetString(fmt.Sprintf("é-%d", f.next()))
		}
	case reflect.Bool:
		value.SetBool(!f.zero)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(f.next() * map[bool]int64{true: -1, false: 1}[f.counter%2 == 0])
	case reflect.Float64:
		value.SetFloat(float64(f.next()) + 0.5)
	}
}

// fillLeaf sets the types that have a wire form of their own.
func (f *filler) fillLeaf(value reflect.Value) bool {
	moment := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC).Add(time.Duration(f.counter) * time.Second)
	raw := []byte(fmt.Sprintf(`{"n":%d}`, f.counter))
	switch target := value.Addr().Interface().(type) {
	case *metav1.Time:
		if !f.zero {
			*target = metav1.NewTime(moment.Truncate(time.Second))
		}
	case *metav1.MicroTime:
		if !f.zero {
			*target = metav1.NewMicroTime(moment)
		}
	case *metav1.Duration:
		*target = metav1.Duration{Duration: time.Duration(f.next()) * 1500 * time.Millisecond}
	case *resource.Quantity:
		*target = resource.MustParse([]string{"0", "100m", "1Gi", "2e3"}[f.next()%4])
	case *intstr.IntOrString:
		*target = intstr.FromInt32(int32(f.next()))
		if f.counter%2 == 1 {
			*target = intstr.FromString(fmt.Sprintf("%d%%", f.counter))
		}
	case *runtime.RawExtension:
		*target = runtime.RawExtension{Raw: raw}
	case *metav1.FieldsV1:
		*target = metav1.FieldsV1{Raw: raw}
	case *apiextensions.JSON:
		*target = apiextensions.JSON{Raw: raw}
	case *apiextensions.JSONSchemaPropsOrBool:
		*target = apiextensions.JSONSchemaPropsOrBool{Allows: true}
		if f.next()%2 == 1 {
			target.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		*target = apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "integer"}}
		if f.next()%2 == 1 {
			*target = apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{{Type: "number"}, {ID: "x"}}}
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		*target = apiextensions.JSONSchemaPropsOrStringArray{Property: []string{"a", "b"}}
		if f.next()%2 == 1 {
			*target = apiextensions.JSONSchemaPropsOrStringArray{Schema: &apiextensions.JSONSchemaProps{Type: "boolean"}}
		}
	default:
		return false
	}
	return true
}

func depth(above []reflect.Type, t reflect.Type) int {
	count := 0
	for _, seen := range above {
		if seen == t {
			count++
		}
	}
	return count
}
