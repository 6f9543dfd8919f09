package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

const (
	name   = "fog"
	scheme = name + "://"
)

// cloud reads its machines, by the names of their nodes, from a JSON file that only the test writes. Asked about any
// machine that is not in the file it says that there is none, whosever the id is. Many clouds do. Its routes, targets by
// their ranges, are in memory: the route controller creates and deletes them concurrently.
type cloud struct {
	path   string
	lock   sync.Mutex
	routes map[string]string
}

func init() {
	cloudprovider.RegisterCloudProvider(name, func(config io.Reader) (cloudprovider.Interface, error) {
		path, err := io.ReadAll(config)
		return &cloud{path: strings.TrimSpace(string(path)), routes: map[string]string{}}, err
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

func (c *cloud) machines() (map[string]string, error) {
	found := map[string]string{}
	data, err := os.ReadFile(c.path)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	return found, err
}

// machine returns the id of a node's machine, empty if there is none.
func (c *cloud) machine(node *v1.Node) (string, error) {
	found, err := c.machines()
	id := found[node.Name]
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
	c.lock.Lock()
	defer c.lock.Unlock()
	routes := []*cloudprovider.Route{}
	for destination, target := range c.routes {
		routes = append(routes, &cloudprovider.Route{
			Name: destination, TargetNode: types.NodeName(target), DestinationCIDR: destination,
		})
	}
	return routes, nil
}

func (c *cloud) CreateRoute(_ context.Context, _ string, _ string, route *cloudprovider.Route) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.routes[route.DestinationCIDR] = string(route.TargetNode)
	return nil
}

func (c *cloud) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.routes, route.DestinationCIDR)
	return nil
}
