internal import CoveCore
internal import CovePicker
internal import Glibc
internal import Synchronization

/// One account of the picker's menu, which is asked again for as long as it has not answered.
final class MenuAccount: Sendable {
    private let request: PickerRequest
    /// The mount that shows it.
    let mount: Mount
    /// What offers its documents, once it has answered that it does.
    private let found = Mutex<AccountPickerService?>(nil)

    init(_ request: PickerRequest, _ mount: Mount) {
        self.request = request
        self.mount = mount
    }

    /// What is in the menu while it does not answer; who goes there asks it again.
    var silentPlace: PickerRoot {
        PickerRoot(
            name: mount.accountName,
            path: Array(mount.path.utf8),
            identifier: mount.accountName,
            note: "does not answer"
        )
    }

    /// Asks what it offers.
    func look() -> AccountPickerService.Offer {
        let location: ItemLocation
        do throws(Failure) {
            location = try Failure.locating(Array(mount.path.utf8) + [0x2F], ItemLocation.find)
        } catch {
            return .silent(PickerFailure(error.subject, error.what, error.remedy, errno: error.errno))
        }
        guard location.mount == mount else {
            return .refused(PickerFailure(mount.path, "something else is mounted there", "choose another account"))
        }
        let service = AccountPickerService(request, location)
        let offer = service.offer
        if case .places = offer { found.withLock { $0 = service } }
        return offer
    }

    /// What offers its documents; it is asked again where it has not answered.
    func service() throws(PickerFailure) -> AccountPickerService {
        if let known = found.withLock({ $0 }) { return known }
        let offer = look()
        if let known = found.withLock({ $0 }) { return known }
        switch offer {
        case .refused(let failure), .silent(let failure): throw failure
        case .places: throw PickerFailure(mount.path, "it does not answer", "try again")
        }
    }
}

extension Mount {
    /// What people call the account that it shows.
    var accountName: String { source.hasPrefix("cove:") ? String(source.dropFirst(5)) : "Cove" }

    /// True for a path below it.
    func shows(_ path: [UInt8]) -> Bool {
        let own = Array(self.path.utf8)
        return own == [0x2F] || path.starts(with: own) && (path.count == own.count || path[own.count] == 0x2F)
    }

    /// The mounts of whole accounts that this process's user has made, one for each account.
    static func ofOwnAccounts(first: Mount?) throws(Errno) -> [Mount] {
        var devices: Set<[UInt32]> = []
        return ([first].compactMap(\.self) + (try MountTable.read())).filter { mount in
            mount.isWholeOwnAccount && devices.insert([mount.majorDevice, mount.minorDevice]).inserted
        }
    }
}
