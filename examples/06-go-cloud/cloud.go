package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/nimbus-cloud/cloudpb"
)

const platform = "nimbus"

// state is the cloud. A machine that was deleted for good is in Gone; one that is in neither was never this cloud's.
type state struct {
	Machines      map[string]machine  `json:"machines"` // by the names of their nodes
	Gone          []string            `json:"gone"`     // ids
	Routes        map[string]string   `json:"routes"`   // node by range
	LoadBalancers map[string]balancer `json:"loadBalancers"`
}

type machine struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Zone    string `json:"zone"`
	Off     bool   `json:"off"`
}

type balancer struct {
	Service string   `json:"service"`
	Ports   []int32  `json:"ports"`
	Nodes   []string `json:"nodes"`
}

// store is the file that has the cloud.
type store struct {
	path string
	lock sync.Mutex
}

// A file that cannot be read is an outage, and no answer: UNAVAILABLE, never an empty cloud.
func (s *store) read() (*state, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.load()
}

func (s *store) load() (*state, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	found := &state{}
	if err := json.Unmarshal(data, found); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return found, nil
}

func (s *store) change(apply func(*state)) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	found, err := s.load()
	if err != nil {
		return err
	}
	if found.Routes == nil {
		found.Routes = map[string]string{}
	}
	if found.LoadBalancers == nil {
		found.LoadBalancers = map[string]balancer{}
	}
	apply(found)
	data, err := json.Marshal(found)
	if err == nil {
		err = os.WriteFile(s.path+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

type provider struct {
	cloudpb.UnimplementedCloudProviderServer
	store store
}

func (p *provider) GetInfo(context.Context, *cloudpb.GetInfoRequest) (*cloudpb.GetInfoResponse, error) {
	parts := []cloudpb.Part{cloudpb.Part_PART_INSTANCES, cloudpb.Part_PART_ROUTES, cloudpb.Part_PART_LOAD_BALANCERS}
	return &cloudpb.GetInfoResponse{Platforms: []string{platform}, Parts: parts}, nil
}

func (p *provider) DescribeInstances(
	_ context.Context, request *cloudpb.DescribeInstancesRequest,
) (*cloudpb.DescribeInstancesResponse, error) {
	cloud, err := p.store.read()
	if err != nil {
		return nil, err
	}
	byID := map[string]machine{}
	for _, one := range cloud.Machines {
		byID[one.ID] = one
	}
	found := map[string]*cloudpb.Instance{}
	for _, node := range request.Nodes {
		// By its id where it has one: a node of the same name may be another machine's.
		one, ok := cloud.Machines[node.Name]
		if node.ProviderId != "" {
			one, ok = byID[node.ProviderId]
		}
		if ok {
			found[node.Name] = &cloudpb.Instance{
				ProviderId: one.ID,
				Shutdown:   one.Off,
				Addresses:  []*cloudpb.NodeAddress{{Type: "InternalIP", Address: one.Address}},
				Zone:       one.Zone,
			}
		}
	}
	return &cloudpb.DescribeInstancesResponse{Instances: found}, nil
}

func (p *provider) InstancesExist(
	_ context.Context, request *cloudpb.InstancesExistRequest,
) (*cloudpb.InstancesExistResponse, error) {
	cloud, err := p.store.read()
	if err != nil {
		return nil, err
	}
	known := map[string]cloudpb.Existence{}
	for _, id := range cloud.Gone {
		known[id] = cloudpb.Existence_EXISTENCE_GONE
	}
	for _, one := range cloud.Machines {
		known[one.ID] = cloudpb.Existence_EXISTENCE_EXISTS
	}
	answers := map[string]cloudpb.Existence{}
	for _, node := range request.Nodes {
		answers[node.ProviderId] = known[node.ProviderId] // unknown, if it is in neither: nothing follows from that
	}
	return &cloudpb.InstancesExistResponse{Instances: answers}, nil
}

func (p *provider) ListRoutes(context.Context, *cloudpb.ListRoutesRequest) (*cloudpb.ListRoutesResponse, error) {
	cloud, err := p.store.read()
	if err != nil {
		return nil, err
	}
	answer := &cloudpb.ListRoutesResponse{}
	for destination, target := range cloud.Routes {
		answer.Routes = append(answer.Routes, &cloudpb.Route{
			Name: destination, DestinationCidr: destination, TargetNode: target,
		})
	}
	return answer, nil
}

func (p *provider) CreateRoute(
	_ context.Context, request *cloudpb.CreateRouteRequest,
) (*cloudpb.CreateRouteResponse, error) {
	return &cloudpb.CreateRouteResponse{}, p.store.change(func(cloud *state) {
		cloud.Routes[request.Route.DestinationCidr] = request.Node.Name
	})
}

func (p *provider) DeleteRoute(
	_ context.Context, request *cloudpb.DeleteRouteRequest,
) (*cloudpb.DeleteRouteResponse, error) {
	return &cloudpb.DeleteRouteResponse{}, p.store.change(func(cloud *state) {
		delete(cloud.Routes, request.Route.DestinationCidr)
	})
}

func (p *provider) GetLoadBalancer(
	_ context.Context, request *cloudpb.GetLoadBalancerRequest,
) (*cloudpb.GetLoadBalancerResponse, error) {
	cloud, err := p.store.read()
	if err != nil {
		return nil, err
	}
	if _, ok := cloud.LoadBalancers[request.Service.LoadBalancerName]; !ok {
		return &cloudpb.GetLoadBalancerResponse{}, nil
	}
	return &cloudpb.GetLoadBalancerResponse{Status: reached(request.Service)}, nil
}

func (p *provider) EnsureLoadBalancer(
	_ context.Context, request *cloudpb.EnsureLoadBalancerRequest,
) (*cloudpb.EnsureLoadBalancerResponse, error) {
	made := balancer{Service: request.Service.Namespace + "/" + request.Service.Name, Nodes: names(request.Nodes)}
	for _, port := range request.Service.Ports {
		if port.Protocol != "TCP" {
			// A refusal: the message is an Event on the Service.
			return nil, status.Errorf(codes.InvalidArgument, "protocol %s is not supported", port.Protocol)
		}
		made.Ports = append(made.Ports, port.Port)
	}
	err := p.store.change(func(cloud *state) { cloud.LoadBalancers[request.Service.LoadBalancerName] = made })
	if err != nil {
		return nil, err
	}
	outcome := &cloudpb.EnsureLoadBalancerResponse_Status{Status: reached(request.Service)}
	return &cloudpb.EnsureLoadBalancerResponse{Outcome: outcome}, nil
}

func (p *provider) UpdateLoadBalancer(
	_ context.Context, request *cloudpb.UpdateLoadBalancerRequest,
) (*cloudpb.UpdateLoadBalancerResponse, error) {
	return &cloudpb.UpdateLoadBalancerResponse{}, p.store.change(func(cloud *state) {
		made := cloud.LoadBalancers[request.Service.LoadBalancerName]
		made.Nodes = names(request.Nodes)
		cloud.LoadBalancers[request.Service.LoadBalancerName] = made
	})
}

func (p *provider) DeleteLoadBalancer(
	_ context.Context, request *cloudpb.DeleteLoadBalancerRequest,
) (*cloudpb.DeleteLoadBalancerResponse, error) {
	return &cloudpb.DeleteLoadBalancerResponse{}, p.store.change(func(cloud *state) {
		delete(cloud.LoadBalancers, request.Service.LoadBalancerName)
	})
}

func reached(service *cloudpb.Service) *cloudpb.LoadBalancerStatus {
	host := service.LoadBalancerName + ".nimbus.example"
	return &cloudpb.LoadBalancerStatus{Ingress: []*cloudpb.LoadBalancerIngress{{Hostname: host}}}
}

func names(nodes []*cloudpb.Node) []string {
	found := []string{}
	for _, node := range nodes {
		found = append(found, node.Name)
	}
	return found
}
