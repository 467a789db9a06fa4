internal import CLinux
internal import CoveCore
internal import Glibc

/// The daemon's side of the keeper process that has started it.
final class KeeperLink: Sendable {
    /// What the keeper has kept from an earlier daemon, by name.
    private let kept: [String: Int32]
    /// How many daemons of the mount there were before.
    let generation: Int
    /// Two daemons before this one died within a minute.
    let isCareful: Bool
    /// The keeper's process id.
    let process: pid_t
    private let socket = KeeperPacket.descriptor

    /// Names of what is kept.
    enum Name: String {
        /// The mount's /dev/fuse.
        case device
        /// What was agreed on with the kernel.
        case negotiation
        /// Which items are open.
        case handles
        /// The lock on the state directory.
        case lock
        /// What ends the connection to the kernel when it is written to.
        case abort
        /// The account's log, in which the keeper writes too.
        case log
        /// The passwords that the first daemon found in its environment.
        case secrets
        /// What the daemon has in hand.
        case work
    }

    /// Waits for the keeper's greeting.
    init() throws(Failure) {
        let remedy = "it is started by `cove mount`"
        let greeting = try Failure.explaining(nil, "the keeper can't be heard", remedy: remedy) { () throws(Errno) in
            try KeeperPacket.receive(on: KeeperPacket.descriptor)
        }
        guard let greeting, greeting.kind == .greeting else { throw Failure(nil, "there is no keeper", remedy) }
        let lines = greeting.text.split(separator: "\n").map(String.init)
        guard let version = lines.first.flatMap({ Int($0) }), (1...KeeperPacket.version).contains(version) else {
            throw Failure(nil, "the keeper is of a version that this program doesn't know", "unmount and mount again")
        }
        kept = Dictionary(zip(lines.dropFirst(), greeting.descriptors)) { $1 }
        isCareful = lines.count > greeting.descriptors.count + 1 && lines.last == KeeperPacket.careful
        generation = Int(greeting.number)
        process = getppid()
    }

    /// What was kept under a name; the caller owns it.
    subscript(_ name: Name) -> Int32? { kept[name.rawValue] }

    /// True when the mount was made by an earlier daemon.
    var isTakeover: Bool { self[.device] != nil }

    /// Has the keeper keep a copy of a descriptor.
    func keep(_ name: Name, _ descriptor: Int32) throws(Failure) {
        try Failure.explaining(nil, "the keeper does not answer", remedy: "unmount and mount again") {
            () throws(Errno) in
            try KeeperPacket(.keep, text: name.rawValue, descriptors: [descriptor]).send(on: socket)
        }
    }

    /// Takes passwords out of the environment, or over from the first daemon, and has the keeper keep them for the next one.
    func passSecretsOn() throws(Failure) {
        var secrets = ProcessEnvironment.takeSecrets()
        if let kept = self[.secrets] {
            defer { System.close(kept) }
            let text = (try? System.contents(kept, atMost: 1 << 20)) ?? []
            secrets = (try? JSONValue(parsing: text).decode()) ?? secrets
        } else if !secrets.isEmpty, let text = try? JSONValue(encoding: secrets).bytes {
            let memory = cove_memfd_create("cove-secrets")
            defer { System.close(memory) }
            try Failure.explaining(nil, "the password can't be kept", remedy: "check the limits of memory") {
                () throws(Errno) in
                guard memory >= 0 else { throw .current }
                let written = text.withUnsafeBytes { bytes in
                    Result { () throws(Errno) in try System.writeAll(memory, bytes) }
                }
                try written.get()
            }
            try keep(.secrets, memory)
        }
        ProcessEnvironment.keep(secrets)
    }

    /// Tells the keeper that the mount is served.
    func tellReady() { try? KeeperPacket(.ready).send(on: socket) }

    /// Has the keeper start a program when this daemon ends with `DaemonExit.replaced`.
    func replace(with program: Int32) throws(Errno) {
        try KeeperPacket(.replace, descriptors: [program]).send(on: socket)
    }

    /// Tells the keeper that an earlier program does not understand the catalog any more.
    func tellSettled() { try? KeeperPacket(.settled).send(on: socket) }

    /// Waits until the keeper has been told to end; false when it is gone.
    func waitForEnd() -> Bool {
        while true {
            guard let packet = try? KeeperPacket.receive(on: socket) else { return false }
            if packet.kind == .end { return true }
        }
    }

    /// The keeper's program: beside this one, or where it is installed.
    static func program() throws(Failure) -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let bytes = buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }
        let own = String(decoding: bytes, as: UTF8.self)
        let folder = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? ""
        let places = [folder + "/cove-keeper", folder + "/../libexec/cove-keeper"]
        guard let found = places.first(where: { access($0, X_OK) == 0 }) else {
            throw Failure(places[0], "it is missing", "install Cove again")
        }
        return found
    }
}
