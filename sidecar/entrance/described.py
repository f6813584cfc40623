"""The tool's services as the signed catalog describes them, in the form that server reflection gives out.

Guaranteed: what is shown is what the catalog pins: its services with the methods it lists, and the messages
of their requests and replies. Not a name of anything else that the process knows, and nothing that the tool
itself says. Not guaranteed: what a method's arguments must be; that is the catalog's and the rules' matter.
"""

from collections import defaultdict
from typing import Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from grpc_reflection.v1alpha.reflection_pb2 import (
    ErrorResponse,
    ExtensionNumberResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)

from licet.catalog import Catalog, Method

_NOT_FOUND: Final = grpc.StatusCode.NOT_FOUND.value
_INVALID: Final = grpc.StatusCode.INVALID_ARGUMENT.value


class Described:
    """One catalog, described; made anew when the catalog changes.

    Args:
        catalog: What is described; None shows nothing.
    """

    def __init__(self, catalog: Catalog | None) -> None:
        self.catalog = catalog
        services = services_of(catalog)
        self._services = tuple(sorted(services))
        self._pool = descriptor_pool.DescriptorPool()
        for file in _files(services):
            self._pool.Add(file)
        for name in self._services:
            self._pool.Add(self._service_file(name, services[name]))

    def answer(self, question: ServerReflectionRequest) -> ServerReflectionResponse:
        """Return the answer to one question; what is not there is an answer, too."""
        answer = ServerReflectionResponse(valid_host=question.host, original_request=question)
        asked = question.WhichOneof("message_request")
        try:
            match asked:
                case "list_services":
                    found = [ServiceResponse(name=name) for name in self._services]
                    answer.list_services_response.CopyFrom(ListServiceResponse(service=found))
                case "file_by_filename":
                    file = self._pool.FindFileByName(question.file_by_filename)
                    answer.file_descriptor_response.CopyFrom(_closure(file))
                case "file_containing_symbol":
                    file = self._file_of(question.file_containing_symbol)
                    answer.file_descriptor_response.CopyFrom(_closure(file))
                case "all_extension_numbers_of_type":
                    name = question.all_extension_numbers_of_type
                    self._pool.FindMessageTypeByName(name)
                    none = ExtensionNumberResponse(base_type_name=name)  # a catalog pins no extensions
                    answer.all_extension_numbers_response.CopyFrom(none)
                case "file_containing_extension":
                    answer.error_response.CopyFrom(_error(_NOT_FOUND))
                case _:
                    answer.error_response.CopyFrom(_error(_INVALID))
        except KeyError:
            answer.error_response.CopyFrom(_error(_NOT_FOUND))
        return answer

    def _file_of(self, symbol: str) -> FileDescriptor:
        """Return the file of a message, an enum, a service or a method; raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            return self._pool.FindMethodByName(symbol).containing_service.file

    def _service_file(self, name: str, methods: list[Method]) -> descriptor_pb2.FileDescriptorProto:
        package, _, service = name.rpartition(".")
        types = {one for method in methods for one in (method.input_type, method.output_type)}
        needed = sorted({self._pool.FindMessageTypeByName(one).file.name for one in types})
        described = [
            descriptor_pb2.MethodDescriptorProto(
                name=method.path.rpartition("/")[2],
                input_type=f".{method.input_type}",
                output_type=f".{method.output_type}",
                server_streaming=method.server_streaming,
                client_streaming=method.client_streaming,
            )
            for method in methods
        ]
        return descriptor_pb2.FileDescriptorProto(
            name=f"licet/catalog/{name}.proto",
            package=package,
            syntax="proto3",
            dependency=needed,
            service=[descriptor_pb2.ServiceDescriptorProto(name=service, method=described)],
        )


def services_of(catalog: Catalog | None) -> dict[str, list[Method]]:
    """Return the gRPC services of a catalog by their full name, each with its methods; none of None."""
    services: dict[str, list[Method]] = defaultdict(list)
    for path, versions in catalog.methods.items() if catalog is not None else ():
        if versions.current.descriptors:
            services[path.split("/")[1]].append(versions.current)
    return dict(services)


def _files(services: dict[str, list[Method]]) -> tuple[descriptor_pb2.FileDescriptorProto, ...]:
    """Return every file that the catalog pins, once; each method pins only what it needs of it."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for methods in services.values():
        for method in methods:
            for part in descriptor_pb2.FileDescriptorSet.FromString(method.descriptors).file:
                _join(files.setdefault(part.name, descriptor_pb2.FileDescriptorProto()), part)
    return _in_order(files)


def _join(file: descriptor_pb2.FileDescriptorProto, part: descriptor_pb2.FileDescriptorProto) -> None:
    if not file.name:
        file.CopyFrom(part)
        file.ClearField("service")
        return
    messages = {one.name for one in file.message_type}
    enums = {one.name for one in file.enum_type}
    file.message_type.extend(one for one in part.message_type if one.name not in messages)
    file.enum_type.extend(one for one in part.enum_type if one.name not in enums)
    file.dependency.extend(one for one in part.dependency if one not in file.dependency)


def _in_order(
    files: dict[str, descriptor_pb2.FileDescriptorProto],
) -> tuple[descriptor_pb2.FileDescriptorProto, ...]:
    """Return the files so that each comes after what it imports."""
    ordered: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def take(name: str) -> None:
        if name in ordered or name not in files:
            return
        for needed in files[name].dependency:
            take(needed)
        ordered[name] = files[name]

    for name in sorted(files):
        take(name)
    return tuple(ordered.values())


def _closure(file: FileDescriptor) -> FileDescriptorResponse:
    """Return a file with everything that it imports, the imports last, as reflection clients expect."""
    found: dict[str, bytes] = {}

    def take(one: FileDescriptor) -> None:
        if one.name in found:
            return
        proto = descriptor_pb2.FileDescriptorProto()
        one.CopyToProto(proto)
        found[one.name] = proto.SerializeToString()
        for needed in one.dependencies:
            take(needed)

    take(file)
    return FileDescriptorResponse(file_descriptor_proto=found.values())


def _error(status: tuple[int, str]) -> ErrorResponse:
    return ErrorResponse(error_code=status[0], error_message=status[1])
