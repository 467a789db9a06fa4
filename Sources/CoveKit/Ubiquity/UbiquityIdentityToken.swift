internal import CoveCore
internal import Foundation
internal import Glibc

/// Tells one account from all others, and nothing else of it.
///
/// It is the same at each call, in every program and after restarts, for as long as the account has its state on this machine.
/// Archived, it says later whether the account is still the one that it was.
public struct UbiquityIdentityToken: Hashable, Codable, Sendable {
    private let text: String

    init?(_ bytes: [UInt8]) {
        guard (1...100).contains(bytes.count), let text = String(validating: bytes, as: UTF8.self) else { return nil }
        self.text = text
    }

    /// Reads what `encode` wrote.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let token = Self(Array(try container.decode(String.self).utf8)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "no token")
        }
        self = token
    }

    /// Writes one opaque text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The token of the account whose mount shows a file; nil outside of Cove's mounts.
    static func of(_ url: URL) -> UbiquityIdentityToken? {
        guard let mount = (try? MountTable.coveMount(holding: url.path)) ?? nil else { return nil }
        return (try? token(of: mount)) ?? nil
    }

    /// That of the first of this user's mounts, or of the account that `COVE_ACCOUNT` names; false where a mount does not answer
    /// that may soon.
    static func ofMachine() -> (token: UbiquityIdentityToken?, isCertain: Bool) {
        var isCertain = true
        let name = ProcessEnvironment.value("COVE_ACCOUNT").map { "cove:\($0)" }
        for mount in (try? MountTable.read()) ?? [] where mount.isCove && mount.owners.contains(geteuid()) {
            if let name, mount.source != name { continue }
            do throws(Errno) {
                if let token = try token(of: mount) { return (token, isCertain) }
            } catch .notConnected {
                // Nobody serves it any more.
                continue
            } catch {}
            isCertain = false
        }
        return (nil, isCertain)
    }

    private static func token(of mount: Mount) throws(Errno) -> UbiquityIdentityToken? {
        Self(try System.attribute(Array(mount.path.utf8), Array("user.cove.identity-token".utf8)))
    }
}
