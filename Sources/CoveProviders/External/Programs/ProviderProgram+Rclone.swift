internal import CoveCore
internal import Glibc

/// Remotes of rclone's, which a program that comes with Cove serves.
extension ProviderProgram {
    private static let rcloneProgram = "cove-rclone"

    /// Reads `rclone:REMOTE:PATH`, taken literally as rclone names it; nil for what is no such source.
    static func rclone(source: String) throws(SourceError) -> ProviderProgram? {
        guard source.hasPrefix("rclone:") else { return nil }
        let remote = String(source.dropFirst("rclone:".count))
        // rclone would take a name without a colon for a folder of this machine.
        guard remote.contains(":") else {
            throw .failed("\(source): write rclone:REMOTE:PATH; `rclone listremotes` tells the remotes")
        }
        guard let manifest = try InstalledProviders.named(rcloneProgram) else {
            throw .failed("\(rcloneProgram), which comes with Cove, is not there; use mount-scripts/install")
        }
        return try ProviderProgram(manifest, name: "rclone", options: ["remote": remote])
    }
}

extension ProviderFactory {
    /// The folders of what comes with Cove: where that is installed, and in the tree of the sources.
    static var companions: [String] {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let own = String(decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        var folders = own.split(separator: "/").dropLast()
        var places = ["/" + (folders.dropLast() + ["lib", "cove", "providers"]).joined(separator: "/")]
        while folders.popLast() != nil { places.append("/" + (folders + ["Providers"]).joined(separator: "/")) }
        return places
    }

    /// The path of a file that comes with Cove.
    public static func companion(_ name: String) -> String? {
        companions.map { "\($0)/\(name)" }.first { access($0, R_OK) == 0 }
    }
}
