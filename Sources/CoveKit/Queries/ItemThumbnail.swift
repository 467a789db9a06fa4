internal import CoveCore
public import Foundation
internal import Glibc

/// The picture of a document, whether its bytes are here or not.
///
/// It shows what the document holds now: a change of its contents ends it. Documents in Cove's mounts have one where the source or
/// the app that saved them gave one, or where a thumbnailer here can make one; other files where a program of the desktop did.
public enum ItemThumbnail {
    /// The one key of `URLResourceKey.thumbnailDictionaryKey`.
    public static let key = "NSThumbnail1024x1024SizeKey"

    /// A PNG file of at most 1024 by 1024 pixels; nil where there is none.
    ///
    /// Fetches no bytes of the document.
    public static func data(ofItemAt url: URL) async throws(CoveError) -> Data? {
        let found = await FileThreads.run { Result { () throws(CoveError) in try read(url) } }
        return try found.get()
    }

    /// Gives a document a picture, an image of at most 16 MiB; with nil it has none.
    ///
    /// To be called under a coordinated write, ``FileCoordinator/WritingOptions/contentIndependentMetadataOnly`` is enough. Throws
    /// ``CoveError/Code/invalidArgument`` for what is no image that can be read here.
    public static func set(_ image: Data?, ofItemAt url: URL) async throws(CoveError) {
        let done = await FileThreads.run { Result { () throws(CoveError) in try write(image, url) } }
        try done.get()
    }

    private static func read(_ url: URL) throws(CoveError) -> Data? {
        let status: stat
        do throws(Errno) { status = try System.statFollowing(url.path) } catch { throw CoveError(error, url: url) }
        guard status.st_mode & S_IFMT == S_IFREG else { return nil }
        guard let (service, location) = try ItemService.find(url) else {
            let cache = ThumbnailCache(cacheFolder: BaseDirectories.cache)
            return cache.picture(of: Array(url.path.utf8), modified: Timestamp(status.st_mtim)).map {
                Data($0.bytes(texts: [:]))
            }
        }
        let request = ItemInterface.Request(path: PathParameter(location.remote))
        let reply: ItemInterface.ThumbnailReply = try service.call("Thumbnail", request, for: url)
        return reply.file.flatMap { ThumbnailCache.read($0) }.map { Data($0.bytes(texts: [:])) }
    }

    /// Blocks.
    static func write(_ image: Data?, _ url: URL) throws(CoveError) {
        guard let (service, location) = try ItemService.find(url) else {
            return try publish(image, url)
        }
        var request = ItemInterface.Request(path: PathParameter(location.remote))
        if let image {
            do throws(Errno) {
                request.picture = try ThumbnailHandover.put([UInt8](image), beside: service.socket)
            } catch {
                throw CoveError(error, url: url)
            }
        }
        defer { if let name = request.picture { ThumbnailHandover.drop(name, beside: service.socket) } }
        let _: VarlinkNothing = try service.call("SetThumbnail", request, for: url)
    }

    /// Outside of Cove's mounts it is for the programs of the desktop alone.
    private static func publish(_ image: Data?, _ url: URL) throws(CoveError) {
        let cache = ThumbnailCache(cacheFolder: BaseDirectories.cache)
        let path = Array(url.path.utf8)
        do throws(Errno) {
            let status = try System.statFollowing(url.path)
            guard let image else { return cache.remove(ThumbnailCache.name(of: path)) }
            guard let picture = Picture([UInt8](image)) else { throw .invalidArgument }
            for (size, side) in ThumbnailCache.sizes where max(picture.width, picture.height) <= side {
                try cache.publish(picture, as: size, of: path, modified: Timestamp(status.st_mtim))
            }
        } catch {
            throw CoveError(error, url: url)
        }
    }
}
