package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

const (
	name   = "fog"
	scheme = name + "://"
)

// cloud is a JSON file: its machines by the names of their nodes, and the targets of its routes by their ranges. Asked
// about any machine that is not in the file it says that there is none, whosever the id is. Many clouds do.
type cloud struct{ path string }

type state struct {
	Machines map[string]string `json:"machines"`
	Routes   map[string]string `json:"routes"`
}

func init() {
	cloudprovider.RegisterCloudProvider(name, func(config io.Reader) (cloudprovider.Interface, error) {
		path, err := io.ReadAll(config)
		return &cloud{strings.TrimSpace(string(path))}, err
	})
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return c, true }
func (c *cloud) ProviderName() string                                              { return name }
func (c *cloud) HasClusterID() bool                                                { return true }

func (c *cloud) read() (state, error) {
	found := state{}
	data, err := os.ReadFile(c.path)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	return found, err
}

func (c *cloud) write(changed state) error {
	data, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(c.path+".new", c.path)
}

// machine returns the id of a node's machine, empty if there is none.
func (c *cloud) machine(node *v1.Node) (string, error) {
	found, err := c.read()
	id := found.Machines[node.Name]
	if node.Spec.ProviderID != "" && node.Spec.ProviderID != id {
		id = ""
	}
	return id, err
}

func (c *cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	id, err := c.machine(node)
	return id != "", err
}

func (c *cloud) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }

func (c *cloud) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	id, err := c.machine(node)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    id,
		InstanceType:  "puff",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.9.0.1"}},
		Zone:          "bank-1",
		Region:        "sea",
	}, nil
}

func (c *cloud) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	found, err := c.read()
	routes := []*cloudprovider.Route{}
	for destination, target := range found.Routes {
		routes = append(routes, &cloudprovider.Route{
			Name: destination, TargetNode: types.NodeName(target), DestinationCIDR: destination,
		})
	}
	return routes, err
}

func (c *cloud) CreateRoute(_ context.Context, _ string, _ string, route *cloudprovider.Route) error {
	return c.change(func(routes map[string]string) { routes[route.DestinationCIDR] = string(route.TargetNode) })
}

func (c *cloud) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	return c.change(func(routes map[string]string) { delete(routes, route.DestinationCIDR) })
}

func (c *cloud) change(apply func(map[string]string)) error {
	found, err := c.read()
	if err != nil {
		return err
	}
	if found.Routes == nil {
		found.Routes = map[string]string{}
	}
	apply(found.Routes)
	return c.write(found)
}
