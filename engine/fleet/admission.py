"""The content of an admission: certificates and keys for a node that joins."""

from collections.abc import Sequence
from pathlib import Path

from engine.fleet.errors import FleetError
from engine.fleet.join_client import Admission
from engine.fleet.key_pair import KeyPair
from engine.fleet.node import AUTHORITY, AUTHORITY_KEY, SEED, SYSTEM_SEED, FleetNode
from engine.fleet.registry import KEEPERS, JoinRequest, Member


def admit_member(
    folder: Path,
    node: FleetNode,
    member: Member,
    members: Sequence[Member],
    request: JoinRequest,
    secrets_key: str,
) -> Admission:
    """Return the certificates and keys of a new member. Raises `FleetError`.

    `folder` is that of this node, `members` are all members with the new one, and `request` is its own.
    """
    from engine.fleet.authority import Authority

    authority = Authority(KeyPair.read(folder / AUTHORITY, folder / AUTHORITY_KEY))
    try:
        certificate = authority.sign(request.signing_request.encode(), member.id, [member.host])
    except ValueError as error:
        raise FleetError("the signing request of the node is not valid") from error
    keepers = tuple(each.address for each in members if each.keeper)
    return Admission(
        fleet=node.fleet,
        node=member.id,
        keeper=member.keeper,
        nodes=keepers,
        members=len(members),
        complete=len(keepers) >= KEEPERS,
        certificate=certificate.decode(),
        authority=authority.pair.certificate.decode(),
        authority_key=authority.pair.key.decode() if member.keeper else "",
        seed=(folder / SEED).read_text().strip(),
        client=node.client,
        system=node.system,
        system_seed=(folder / SYSTEM_SEED).read_text().strip() if member.keeper else "",
        secrets_key=secrets_key,
    )
