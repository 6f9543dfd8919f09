package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"

	discovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tableEntry is one line of the table: what discovery says about a resource, with the obvious left out.
type tableEntry struct {
	Group        string        `json:"group"`
	Version      string        `json:"version"`
	Plural       string        `json:"plural"`
	Singular     string        `json:"singular"`
	Kind         string        `json:"kind"`
	Namespaced   bool          `json:"namespaced"`
	Verbs        []string      `json:"verbs"`
	ShortNames   []string      `json:"shortNames,omitempty"`
	Categories   []string      `json:"categories,omitempty"`
	Subresources []subresource `json:"subresources,omitempty"`
}

type subresource struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Version string   `json:"version"`
	Kind    string   `json:"kind"`
	Verbs   []string `json:"verbs"`
}

// leftOut are resources that a kube-apiserver serves and Fairlead's does not: serving them without the behaviour
// behind them would mislead clients.
var leftOut = map[string]string{
	"/v1/componentstatuses": "deprecated; probes components that do not exist here",
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicies":       "not carried out",
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": "not carried out",
	"apiregistration.k8s.io/v1/apiservices":                           "no aggregation",
	"flowcontrol.apiserver.k8s.io/v1/flowschemas":                     "fairness has no configuration here",
	"flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations":     "fairness has no configuration here",
	"/v1/nodes/proxy":      "needs a kubelet to connect to",
	"/v1/pods/attach":      "needs a kubelet to connect to",
	"/v1/pods/exec":        "needs a kubelet to connect to",
	"/v1/pods/log":         "needs a kubelet to connect to",
	"/v1/pods/portforward": "needs a kubelet to connect to",
	"/v1/pods/proxy":       "needs a kubelet to connect to",
	"/v1/services/proxy":   "needs a pod network",
}

func readResources(folder string) ([]tableEntry, error) {
	var resources []tableEntry
	for _, name := range []string{"api.json", "apis.json"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		var groups discovery.APIGroupDiscoveryList
		if err := json.Unmarshal(data, &groups); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, group := range groups.Items {
			for _, version := range group.Versions {
				resources = append(resources, versionResources(group.Name, version)...)
			}
		}
	}
	return resources, nil
}

func versionResources(group string, version discovery.APIVersionDiscovery) []tableEntry {
	var resources []tableEntry
	for _, found := range version.Resources {
		path := fmt.Sprintf("%s/%s/%s", group, version.Version, found.Resource)
		if _, left := leftOut[path]; left {
			continue
		}
		entry := tableEntry{
			Group:      group,
			Version:    version.Version,
			Plural:     found.Resource,
			Singular:   found.SingularResource,
			Kind:       found.ResponseKind.Kind,
			Namespaced: found.Scope == discovery.ScopeNamespace,
			Verbs:      sorted(found.Verbs),
			ShortNames: found.ShortNames,
			Categories: found.Categories,
		}
		for _, sub := range found.Subresources {
			if _, left := leftOut[path+"/"+sub.Subresource]; left {
				continue
			}
			kind := kindOf(group, version.Version, sub.ResponseKind)
			entry.Subresources = append(entry.Subresources, subresource{
				Name: sub.Subresource, Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Verbs: sorted(sub.Verbs),
			})
		}
		resources = append(resources, entry)
	}
	return resources
}

// kindOf fills in what discovery leaves out of a response kind: an empty group and version mean the resource's own.
func kindOf(group, version string, kind *metav1.GroupVersionKind) metav1.GroupVersionKind {
	if kind.Group == "" && kind.Version == "" {
		return metav1.GroupVersionKind{Group: group, Version: version, Kind: kind.Kind}
	}
	return *kind
}

func sorted(values []string) []string {
	values = slices.Clone(values)
	sort.Strings(values)
	return values
}
