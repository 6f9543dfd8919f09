// Command types writes down what Fairlead's API server must know of Kubernetes' own kinds, as plain data:
// names, numbers and types, never prose. Three sources meet here:
//
//   - the Go types of k8s.io/api, by reflection: JSON names, protobuf numbers, presence;
//   - the OpenAPI definitions generated from their markers: required, default, enum, list and map types, patch keys;
//   - the discovery documents of a running kube-apiserver: plurals, short names, verbs, subresources.
//
// The output is deterministic: the same Kubernetes version gives the same bytes. generate.sh runs it.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
)

func main() {
	discovery := flag.String("discovery", "", "folder with api.json and apis.json, aggregated discovery documents of a kube-apiserver")
	output := flag.String("output", "", "data file to write")
	samples := flag.String("samples", "", "test data to write: every kind in protobuf and JSON")
	flag.Parse()
	if err := run(*discovery, *output, *samples); err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
		os.Exit(1)
	}
}

func run(discovery, output, samples string) error {
	resources, err := readResources(discovery)
	if err != nil {
		return err
	}
	packages, err := collectTypes(rootTypes(resources))
	if err != nil {
		return err
	}
	data, err := render(kubernetesVersion(), resources, packages)
	if err != nil {
		return err
	}
	if err := os.WriteFile(output, data, 0o644); err != nil {
		return err
	}
	return writeSamples(resources, samples)
}

// kubernetesVersion is the version that go.mod pins, so the file can say what it was made from.
func kubernetesVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/kubernetes" {
			return dependency.Version
		}
	}
	return "unknown"
}

// render prints one resource or type per line, so that a new Kubernetes version gives a readable diff.
func render(version string, resources []tableEntry, packages map[string]*goPackage) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"kubernetes\":%q,\n\"resources\":[", version)
	for i, entry := range resources {
		line, err := marshal(entry)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s\n%s", separator(i), line)
	}
	out.WriteString("\n],\n\"packages\":{")
	for i, name := range sortedKeys(packages) {
		pkg := packages[name]
		fmt.Fprintf(&out, "%s\n%q:{\"group\":%q,\"version\":%q,\"types\":{", separator(i), name, pkg.group, pkg.version)
		for j, typeName := range sortedKeys(pkg.types) {
			line, err := marshal(pkg.types[typeName])
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s\n%q:%s", separator(j), typeName, line)
		}
		out.WriteString("}}")
	}
	out.WriteString("\n}}\n")
	return out.Bytes(), nil
}

func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

func separator(index int) string {
	if index == 0 {
		return ""
	}
	return ","
}

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
