internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

extension URLResourceKey {
    /// True for what a person keeps out of the cloud; see `FileManager.setExcludedFromSync(_:itemAt:)`.
    public static let ubiquitousItemIsExcludedFromSyncKey = URLResourceKey(
        rawValue: "NSURLUbiquitousItemIsExcludedFromSyncKey"
    )

    /// True for what others have too, as far as the source tells.
    public static let ubiquitousItemIsSharedKey = URLResourceKey(rawValue: "NSURLUbiquitousItemIsSharedKey")
    /// `owner` or `participant`, of what is shared.
    public static let ubiquitousSharedItemCurrentUserRoleKey = URLResourceKey(
        rawValue: "NSURLUbiquitousSharedItemCurrentUserRoleKey"
    )
    /// `readOnly` or `readWrite`.
    public static let ubiquitousSharedItemCurrentUserPermissionsKey = URLResourceKey(
        rawValue: "NSURLUbiquitousSharedItemCurrentUserPermissionsKey"
    )
    /// Whose the item is; nil for what is one's own.
    public static let ubiquitousSharedItemOwnerNameComponentsKey = URLResourceKey(
        rawValue: "NSURLUbiquitousSharedItemOwnerNameComponentsKey"
    )
    /// Who changed the item last, as far as the source tells.
    public static let ubiquitousSharedItemMostRecentEditorNameComponentsKey = URLResourceKey(
        rawValue: "NSURLUbiquitousSharedItemMostRecentEditorNameComponentsKey"
    )
}

/// What is known of files whose bytes need not be here: no call fetches any, and none needs a claim.
///
/// What `URL.resourceValues(forKeys:)` tells is for files that are here.
public enum PromisedItem {
    /// Values by their keys: nil for one that the item has not, or that only its bytes would tell.
    public typealias Values = [URLResourceKey: MetadataValue?]

    /// What is known of items, in the order of the URLs, by one call of each account's daemon.
    ///
    /// A key that nobody knows is missing. Dates are dates, sizes are bytes, kinds of things and URLs are texts. A label is the
    /// first tag that is named after its colour: Gray is 1, then Green, Purple, Blue, Yellow, Red and Orange. Of an item that
    /// is not there the error is ``CoveError/Code/noSuchFile``. Pictures, `thumbnailDictionaryKey`, take a call each, and may be
    /// fetched from the source; the only one in the dictionary has the key ``ItemThumbnail/key``.
    public static func resourceValues(
        ofItemsAt urls: [URL],
        forKeys keys: Set<URLResourceKey>
    ) async -> [Result<Values, CoveError>] {
        var found = await FileThreads.run { Self.values(of: urls, keys) }
        guard keys.contains(.thumbnailDictionaryKey) else { return found }
        for index in urls.indices where (try? found[index].get()) != nil {
            guard let picture = try? await ItemThumbnail.data(ofItemAt: urls[index]) else { continue }
            set(&found[index], .thumbnailDictionaryKey, .images([ItemThumbnail.key: picture]))
        }
        return found
    }

    /// The same of one item.
    public static func resourceValues(
        ofItemAt url: URL,
        forKeys keys: Set<URLResourceKey>
    ) async throws(CoveError) -> Values {
        guard let result = await resourceValues(ofItemsAt: [url], forKeys: keys).first else { return [:] }
        return try result.get()
    }

    /// True where there is such an item, whether its bytes are here or not.
    public static func isReachable(_ url: URL) async -> Bool {
        await FileThreads.run { (try? System.lstat(url.path)) != nil }
    }

    // MARK: Finding out

    /// What the daemon is asked, by the key of each.
    private static let asked: [URLResourceKey: QueryKey] = [
        .isUbiquitousItemKey: .isUbiquitous, .ubiquitousItemHasUnresolvedConflictsKey: .hasUnresolvedConflicts,
        .ubiquitousItemIsDownloadingKey: .isDownloading, .ubiquitousItemIsUploadedKey: .isUploaded,
        .ubiquitousItemIsUploadingKey: .isUploading, .ubiquitousItemDownloadingStatusKey: .downloadingStatus,
        .ubiquitousItemDownloadingErrorKey: .downloadingError, .ubiquitousItemUploadingErrorKey: .uploadingError,
        .ubiquitousItemDownloadRequestedKey: .downloadRequested,
        .ubiquitousItemContainerDisplayNameKey: .containerDisplayName, .documentIdentifierKey: .documentID,
        .typeIdentifierKey: .contentType, .ubiquitousItemIsExcludedFromSyncKey: .isExcludedFromSync,
        .ubiquitousItemIsSharedKey: .isShared, .ubiquitousSharedItemCurrentUserRoleKey: .currentUserRole,
        .ubiquitousSharedItemCurrentUserPermissionsKey: .currentUserPermissions,
        .ubiquitousSharedItemOwnerNameComponentsKey: .ownerName,
        .ubiquitousSharedItemMostRecentEditorNameComponentsKey: .mostRecentEditor,
    ]

    /// What only the bytes would tell, or nobody keeps.
    private static let without: Set<URLResourceKey> = [
        .contentAccessDateKey, .generationIdentifierKey, .addedToDirectoryDateKey, .thumbnailDictionaryKey,
        .labelColorKey,
    ]

    /// The tags that are colours, in the order of their numbers as labels.
    private static let labels = ["Gray", "Green", "Purple", "Blue", "Yellow", "Red", "Orange"]

    private static func values(of urls: [URL], _ keys: Set<URLResourceKey>) -> [Result<Values, CoveError>] {
        // Whoever looks at a name has the folder listed that it is in.
        var found = urls.map { url -> Result<Values, CoveError> in
            do throws(Errno) {
                return .success(known(url, try System.lstat(url.path), keys))
            } catch {
                return .failure(CoveError(error, url: url))
            }
        }
        let wanted = keys.compactMap { key in Self.asked[key].map { (key, $0) } }
        guard !wanted.isEmpty else { return found }
        var groups: [DaemonAddress: [(index: Int, place: Location)]] = [:]
        for index in urls.indices where (try? found[index].get()) != nil {
            // Outside of Cove's mounts nothing is in a cloud.
            for (key, query) in wanted { set(&found[index], key, query == .isUbiquitous ? .bool(false) : nil) }
            do throws(CoveError) {
                guard let (address, location) = try Authorities.locate(urls[index], .account, followsLink: false) else {
                    continue
                }
                groups[address, default: []].append((index, location))
            } catch {
                found[index] = .failure(error)
            }
        }
        for (address, items) in groups {
            let results = ask(address, items.map(\.place), wanted.map(\.1))
            for (index, place) in items {
                switch results[place.remote] {
                case nil: break
                case .failure(let error): found[index] = .failure(error)
                case .success(let result):
                    for (key, query) in wanted {
                        set(&found[index], key, result.values[query].map { MetadataValue($0) })
                    }
                }
            }
        }
        return found
    }

    private static func set(_ result: inout Result<Values, CoveError>, _ key: URLResourceKey, _ value: MetadataValue?) {
        guard case .success(var values) = result else { return }
        values.updateValue(value, forKey: key)
        result = .success(values)
    }

    /// What the daemon tells of items, by their paths below the account's root.
    private static func ask(
        _ address: DaemonAddress,
        _ places: [Location],
        _ keys: [QueryKey]
    ) -> [RemotePath: Result<QueryResultMessage, CoveError>] {
        var results: [RemotePath: Result<QueryResultMessage, CoveError>] = [:]
        var rest = places[...]
        var most = QueryInterface.ValuesRequest.most
        do throws(VarlinkClient.Failure) {
            let client = try VarlinkClient(address)
            while !rest.isEmpty {
                // Neither the request nor the answer may be longer than a message.
                var room = MessageRoom()
                let fitting = rest.prefix(most).prefix { room.take([$0.remote.description]) }
                let part = fitting.isEmpty ? rest.prefix(1) : fitting
                let request = QueryInterface.ValuesRequest(
                    items: part.map { PathParameter($0.remote) },
                    attributes: keys.map(\.rawValue)
                )
                do throws(VarlinkClient.Failure) {
                    let reply: QueryInterface.ValuesReply = try client.call("\(QueryInterface.name).Values", request)
                    for result in reply.results {
                        if let path = (try? result.path.remotePath()) ?? nil { results[path] = .success(result) }
                    }
                } catch {
                    guard case .error(.expectedMore) = error else { throw error }
                    if part.count > 1 {
                        most = part.count / 2
                        continue
                    }
                    for place in part { results[place.remote] = .failure(CoveError(error, url: nil)) }
                }
                rest = rest.dropFirst(part.count)
            }
        } catch {
            for place in rest { results[place.remote] = .failure(CoveError(error, url: nil)) }
        }
        return results
    }

    /// What a name and its attributes tell.
    private static func known(_ url: URL, _ status: stat, _ keys: Set<URLResourceKey>) -> Values {
        let kind = status.st_mode & S_IFMT
        let name = url.lastPathComponent
        let attribute = { (name: String) in
            (try? System.attribute(Array(url.path.utf8), Array(name.utf8))).map { String(decoding: $0, as: UTF8.self) }
        }
        func tags() -> [String]? {
            attribute("user.cove.tags").map { $0.split { $0 == "," || $0 == "\n" }.map { String($0) } }
        }
        func label() -> (index: Int, tag: String)? {
            for tag in tags() ?? [] {
                if let index = labels.firstIndex(where: { $0.lowercased() == tag.lowercased() }) { return (index, tag) }
            }
            return nil
        }
        func date(_ time: timespec) -> MetadataValue {
            .date(Date(timeIntervalSince1970: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9))
        }
        var values: Values = [:]
        for key in keys {
            let value: MetadataValue?
            switch key {
            case .nameKey, .localizedNameKey: value = .string(name)
            case .hasHiddenExtensionKey: value = .bool(false)
            case .isRegularFileKey: value = .bool(kind == S_IFREG)
            case .isDirectoryKey: value = .bool(kind == S_IFDIR)
            case .isSymbolicLinkKey: value = .bool(kind == S_IFLNK)
            case .isPackageKey:
                let isOne = PackageTypes.contains(url.pathExtension) || attribute("user.cove.package") == "1"
                value = .bool(kind == S_IFDIR && isOne)
            case .fileResourceTypeKey:
                let type: URLFileResourceType =
                    kind == S_IFREG
                    ? .regular : kind == S_IFDIR ? .directory : kind == S_IFLNK ? .symbolicLink : .unknown
                value = .string(type.rawValue)
            case .contentModificationDateKey: value = date(status.st_mtim)
            case .creationDateKey:
                let birth = (try? System.status(AT_FDCWD, Array(url.path.utf8)))?.birthTime ?? .epoch
                value = birth == .epoch ? nil : date(birth.timespec)
            case .attributeModificationDateKey: value = date(status.st_ctim)
            case .fileSizeKey: value = kind == S_IFDIR ? nil : .number(Double(status.st_size))
            // What is on this disk says nothing of the file.
            case .fileAllocatedSizeKey, .totalFileAllocatedSizeKey: value = .number(0)
            case .fileResourceIdentifierKey: value = .string("\(status.st_dev):\(status.st_ino)")
            case .fileSecurityKey: value = .string(String(status.st_mode & 0o7777, radix: 8))
            case .tagNamesKey: value = tags().map { .strings($0) }
            case .labelNumberKey: value = .number(Double(label().map { $0.index + 1 } ?? 0))
            case .localizedLabelKey: value = label().map { .string($0.tag) }
            case .localizedTypeDescriptionKey:
                let type = kind == S_IFDIR ? "inode/directory" : kind == S_IFLNK ? "inode/symlink" : nil
                let named = ContentTypes.ofMachine.type(ofFile: name)
                value = TypeDescriptions.description(of: type ?? named).map { .string($0) }
            case .parentDirectoryURLKey: value = .string(url.deletingLastPathComponent().path)
            case .pathKey: value = .string(url.path)
            case .isHiddenKey: value = .bool(name.hasPrefix("."))
            case .isReadableKey: value = .bool(access(url.path, R_OK) == 0)
            case .isWritableKey: value = .bool(access(url.path, W_OK) == 0)
            case let other where without.contains(other): value = nil
            default: continue
            }
            values.updateValue(value, forKey: key)
        }
        return values
    }
}
