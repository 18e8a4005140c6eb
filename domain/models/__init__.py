"""The tables of schema `app`. Importing this package registers all of them on `Base.metadata`."""

from domain.models.approvals import GivenApproval
from domain.models.assets import Asset, AssetVersion, Revision
from domain.models.audit import AuditEntry, AuditSeal
from domain.models.base import Base
from domain.models.callbacks import Callback, CallbackDelivery, CallbackEndpoint, CallbackSecret
from domain.models.console import ConsoleSession
from domain.models.exports import Export
from domain.models.history import NodeTransition, RunMetric
from domain.models.holds import HeldPlace
from domain.models.layers import LayerCatalog, LayerMetadata
from domain.models.listening import ListeningSpan
from domain.models.platforms import Client, Platform
from domain.models.pools import PoolWorker
from domain.models.processes import Process
from domain.models.requests import Event, Request
from domain.models.runs import ArtifactRow, Attempt, AttemptFlowRun, Run, RunNode, WorkflowDefinition
from domain.models.settings import Setting

__all__ = [
    "ArtifactRow",
    "Asset",
    "AssetVersion",
    "Attempt",
    "AttemptFlowRun",
    "AuditEntry",
    "AuditSeal",
    "Base",
    "Callback",
    "CallbackDelivery",
    "CallbackEndpoint",
    "CallbackSecret",
    "Client",
    "ConsoleSession",
    "Event",
    "Export",
    "GivenApproval",
    "HeldPlace",
    "LayerCatalog",
    "LayerMetadata",
    "ListeningSpan",
    "NodeTransition",
    "Platform",
    "PoolWorker",
    "Process",
    "Request",
    "Revision",
    "Run",
    "RunMetric",
    "RunNode",
    "Setting",
    "WorkflowDefinition",
]
