"""The files of a fleet's first node."""

from pathlib import Path

from engine.fleet.nkeys import Nkey
from engine.fleet.node import FleetNode, NodeAddress, NodeKeys, create_node, node_id


def found_node(folder: Path, address: NodeAddress) -> FleetNode:
    """Create a new fleet, and the folder of its first node. Raises `SvcError`."""
    from engine.fleet.authority import Authority

    name, id_ = node_id(0).partition("-")[2], node_id(1)
    authority, client, system = Authority.create(name), Nkey.create(), Nkey.create()
    node = FleetNode(
        fleet=name,
        node=id_,
        address=address,
        nodes=(address,),
        client=client.public,
        system=system.public,
        state="founding",
    )
    pair = authority.issue(id_, [address.host])
    create_node(folder, node, NodeKeys(authority.pair, pair, client.seed, system.seed))
    return node
